"""Two schedulers allocate the same device: the later claim gives way, or is reported."""

from __future__ import annotations

from typing import Any

from structlog.testing import capture_logs

from scheduler.controllers.claim_collisions import ClaimCollisions
from scheduler.model.actions import ReleaseClaims
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING
from scheduler.state.fold import fold
from tests.builders import cluster, node, pod
from tests.dra import (
    allocation_json,
    claiming,
    device_json,
    resource_claim,
    resource_slice,
    result_json,
)
from tests.unit.controllers.claim_stage import (
    DONE,
    REF,
    UID,
    Stage,
    allocation,
    failure,
    reserved,
)

GIVES_WAY = "claim team/gpu: device gpu.example.com/n1/gpu-0 is also allocated to claim team/theirs"


def theirs(version: int, device: str = "gpu-0") -> ResourceClaim:
    given = allocation_json(result_json(device))
    return resource_claim("theirs", version=str(version), allocation=given, users=["foreign"])


def begun() -> Stage:
    """A pod whose claim is being written; a claim of another scheduler is not allocated yet."""
    stage = Stage(resource_claim(), resource_claim("theirs"))
    stage.begin(allocation())
    return stage


def test_binding_waits_until_the_watch_has_shown_the_write() -> None:
    stage = begun()

    assert stage.answer(reserved(version="5"), is_seen=False) == NOTHING
    assert stage.tick() == NOTHING
    assert stage.see(theirs(4, "gpu-1")) == NOTHING
    assert stage.see(reserved(version="5")) == DONE
    assert stage.counted() == {"reserved": 1}


def test_newer_claim_of_the_watch_is_as_good_as_the_write_itself() -> None:
    stage = begun()
    stage.answer(reserved(version="5"), is_seen=False)

    assert stage.see(theirs(6, "gpu-1")) == DONE


def test_claim_whose_device_another_claim_had_before_gives_way() -> None:
    stage = begun()
    stage.answer(reserved(version="5"), is_seen=False)
    assert stage.see(theirs(4)) == NOTHING

    effects = stage.see(reserved(version="5"))

    assert failure(effects) == f"{GIVES_WAY} (node n1)"
    assert ReleaseClaims(UID, (REF,), deallocate=True) in effects
    assert stage.counted() == {"collision": 1}
    assert UID not in stage.cluster.assumed


def test_claim_that_was_allocated_before_another_one_stays() -> None:
    stage = begun()
    stage.answer(reserved(version="5"), is_seen=False)

    assert stage.see(theirs(6)) == DONE


def test_claim_gives_way_to_one_that_a_list_shows() -> None:
    """It may have been allocated before: the list has its newest version only."""
    stage = begun()
    stage.answer(reserved(version="5"), is_seen=False)

    effects = stage.see(ev.DraReplaced(ResourceClaim, (reserved(version="5"), theirs(9))))

    assert failure(effects) == f"{GIVES_WAY} (node n1)"


def test_late_allocation_of_a_former_leader_gives_way() -> None:
    """Its pod is decided again; the device is in use by a pod of this leader."""
    stage = Stage(resource_claim(), resource_claim("theirs"))
    stage.see(theirs(4), reserved(version="5"))
    stage.begin()

    effects = stage.answer(reserved(version="5"))

    assert failure(effects) == f"{GIVES_WAY} (node n1)"
    assert ReleaseClaims(UID, (REF,), deallocate=True) in effects


def test_pod_is_not_bound_if_the_watch_never_shows_its_claim() -> None:
    stage = begun()
    stage.answer(reserved(version="5"), is_seen=False)

    effects = stage.tick(600)

    assert failure(effects) == "the watch does not show its claims after 600 s (node n1)"
    assert stage.counted() == {"timeout": 1}


MIG_0 = result_json("mig-0")


def published(generation: int) -> ResourceSlice:
    """Two partitions of a card, which has memory slices for one of them."""
    use = {"counterSet": "card", "counters": {"slices": {"value": "3"}}}
    parts = [device_json(f"mig-{number}", consumesCounters=[use]) for number in range(2)]
    return resource_slice("n1", *parts, name="devices", generation=generation, slices=2)


def counters(generation: int) -> ResourceSlice:
    card = [{"name": "card", "counters": {"slices": {"value": "4"}}}]
    return resource_slice(
        "n1", name="counters", generation=generation, slices=2, sharedCounters=card
    )


def republished() -> Stage:
    """Another scheduler had the other partition first; the driver replaces the pool's slices."""
    stage = Stage(resource_claim(), resource_claim("theirs"), published(1), counters(1))
    stage.begin(allocation(MIG_0))
    assert stage.see(theirs(4, "mig-1"), published(2)) == NOTHING
    assert stage.answer(reserved(MIG_0, version="5")) == NOTHING
    return stage


def test_binding_waits_until_the_pool_of_its_device_is_complete() -> None:
    stage = republished()
    assert stage.tick() == NOTHING

    effects = stage.see(counters(2))

    said = failure(effects)
    assert "counter slices of card for device gpu.example.com/n1/mig-0" in said
    assert ReleaseClaims(UID, (REF,), deallocate=True) in effects


def test_pod_is_bound_once_a_complete_pool_shows_its_device_free() -> None:
    stage = republished()
    stage.see(resource_claim("theirs", version="6"))

    assert stage.see(counters(2)) == DONE


def test_pod_is_not_bound_if_the_pool_stays_incomplete() -> None:
    stage = republished()

    effects = stage.tick(600)

    assert failure(effects) == (
        "claim team/gpu: pool gpu.example.com/n1: incomplete after 600 s (node n1)"
    )
    assert stage.counted() == {"timeout": 1}


class Watched:
    """The controller that reports collisions, and what it logged."""

    def __init__(self) -> None:
        self.cluster = cluster(node("n1"), resource_slice("n1", "gpu-0", "gpu-1"))
        self.metrics = Metrics("gpu-scheduler")
        self.controller = ClaimCollisions(self.cluster, self.metrics)

    def see(self, *items: Any) -> None:
        for item in items:
            event = item if isinstance(item, ev.Event) else ev.DraUpdated(item)
            fold(self.cluster, event)
            self.controller.handle(event, 100.0)

    def logged(self, *, leads: bool = True) -> list[str]:
        with capture_logs() as logs:
            assert self.controller.tick(100.0, leads=leads) == NOTHING
        return [f"{one['claim']} {one['pods']}: {one['problem']}" for one in logs]

    @property
    def gauge(self) -> float | None:
        return self.metrics.registry.get_sample_value("gpu_scheduler_colliding_claims")


REPORT = (
    "team/theirs ['team/foreign']: device gpu.example.com/n1/gpu-0 is also allocated to claim"
    " team/gpu"
)


def collided() -> Watched:
    watched = Watched()
    watched.see(resource_claim(), resource_claim("theirs"), reserved(version="5"), theirs(6))
    return watched


def test_claim_of_another_scheduler_is_logged_once_while_it_collides() -> None:
    watched = collided()

    assert watched.logged() == [REPORT]
    watched.see(theirs(7))
    assert watched.logged() == []
    assert watched.gauge == 1

    watched.see(ev.DraDeleted(ResourceClaim, "team/theirs"))
    assert watched.logged() == []
    assert watched.gauge == 0


def test_a_collision_is_reported_once_a_process_leads() -> None:
    watched = collided()

    assert watched.logged(leads=False) == []
    assert watched.gauge == 0
    assert watched.logged() == [REPORT]
    assert watched.gauge == 1


def test_collision_is_reported_once_the_pool_is_complete() -> None:
    watched = Watched()
    watched.see(published(2), resource_claim(), resource_claim("theirs"))
    watched.see(reserved(MIG_0, version="5"), theirs(6, "mig-1"))
    assert watched.logged() == []

    watched.see(counters(2))

    assert len(watched.logged()) == 1
    assert watched.logged() == []
    assert watched.gauge == 1


def test_collision_of_the_first_list_is_reported() -> None:
    watched = Watched()
    watched.see(ev.DraReplaced(ResourceClaim, (reserved(version="5"), theirs(6))))

    assert len(watched.logged()) == 2
    assert watched.gauge == 2


def test_claim_of_a_waiting_placement_is_reported_only_once_bound() -> None:
    stage = begun()
    reports = ClaimCollisions(stage.cluster, stage.metrics)
    mine = reserved(version="5")
    for claim in (theirs(4), mine):
        event = ev.DraUpdated(claim)
        fold(stage.cluster, event)
        reports.handle(event, 100.0)

    with capture_logs() as before:
        reports.tick(100.0, leads=True)
    stage.cluster.upsert_pod(pod("p", spec=claiming("gpu"), node="n1"))
    with capture_logs() as after:
        reports.tick(101.0, leads=True)

    assert before == []
    assert [one["claim"] for one in after] == ["team/gpu"]
