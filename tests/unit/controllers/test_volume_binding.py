"""Placements that wait for their claims: what is written, and when they are bound or given up."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.controllers.volume_binding import TIMEOUT_S, VolumeBindingController
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import PendingPlacement
from scheduler.model.actions import (
    CompleteStep,
    DropPlacement,
    GiveVolume,
    SelectNode,
    WriteVolumes,
)
from scheduler.model.pods.pod import Pod
from scheduler.model.volumes.claim import Claim
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.fold import fold
from scheduler.watch.inbox import Inbox
from tests.builders import ALLOW_ALL_MAPS, cluster, codes, node, pod
from tests.storage import HOSTNAME, ZONE, claim, storage_class, uses, volume
from tests.unit.loop.loop_world import Leader

P = "x.example/y"
WORLD = (
    node("n1", labels={HOSTNAME: "n1", ZONE: "a"}),
    storage_class(),
    storage_class("fast", provisioner=P),
)
USER = pod("p", spec=uses("data"))
DONE = (CompleteStep("team-p", "volumes"),)


class Stage:
    """A cluster, and what the controller returned for events."""

    def __init__(self, *objects: Any) -> None:
        self.cluster = cluster(*WORLD, *objects)
        self.now = 100.0
        self.metrics = Metrics("gpu-scheduler")
        gate = LeaderGate(Leader(), [], Inbox())
        avoidance = NodeAvoidance(self.cluster, self.metrics, gate)
        self.controller = VolumeBindingController(self.cluster, self.metrics, avoidance)

    def begin(self, user: Pod = USER) -> Effects:
        """Decide and assume, as the loop does."""
        self.cluster.upsert_pod(user)
        decision = schedule_one(self.cluster, user, ALLOW_ALL_MAPS)
        assert isinstance(decision, PendingPlacement)
        assumption = Assumption(decision.node_name, decision.devices, volumes=decision.volumes)
        self.cluster.assume(user, assumption)
        return self.controller.begin(decision, self.now)

    def see(self, *items: Any) -> Effects:
        """Storage objects change, one after the other."""
        effects: Effects = ()
        for item in items:
            event = item if isinstance(item, ev.Event) else ev.StorageUpdated(item)
            fold(self.cluster, event)
            effects += self.controller.handle(event, self.now)
        return effects

    def written(self, *pairs: tuple[str, str], problem: str = "", attempt: int = 1) -> Effects:
        return self.see(ev.VolumesWritten("team-p", attempt, pairs, problem))

    def tick(self, seconds: float = 1.0, *, leads: bool = True) -> Effects:
        self.now += seconds
        return self.controller.tick(self.now, leads=leads)

    def counted(self) -> dict[str, float]:
        [family] = self.metrics.volume_bindings.collect()
        found = [one for one in family.samples if one.name.endswith("_total")]
        return {one.labels["result"]: one.value for one in found}


def failure(effects: Effects) -> str:
    """Why a placement was taken back; it is tried again."""
    (failed,) = [one for one in effects if isinstance(one, ev.BindFailed)]
    assert DropPlacement("team-p") in effects
    return failed.message


STATIC = (claim(), volume(host="n1"))
GIVEN = volume(
    host="n1", for_claim="team/data", claim_uid="uid-data", version="2", phase="Available"
)
DYNAMIC = (claim(class_name="fast"),)
SELECTED = claim(class_name="fast", selected="n1", version="2")
PROVISIONED = volume("new", class_name="fast", for_claim="team/data", claim_uid="uid-data")


def bound(to: str, **more: Any) -> Claim:
    """The claim as the PV controller leaves it."""
    return claim(volume=to, version="3", **more)


def test_a_volume_is_given_and_the_binding_waits_for_the_claim() -> None:
    stage = Stage(*STATIC)

    assert stage.begin() == (
        WriteVolumes(
            "team-p",
            1,
            (GiveVolume("pv", "1", "team", "data", "uid-data", "1", is_ours=True),),
        ),
    )
    assert stage.written(("pv", "2")) == NOTHING
    assert stage.see(GIVEN) == NOTHING
    assert stage.see(bound("pv")) == DONE
    assert stage.counted() == {"bound": 1}
    assert stage.see(bound("pv", selected="x")) == NOTHING


def test_a_node_is_selected_and_the_binding_waits_for_the_volume() -> None:
    stage = Stage(*DYNAMIC)

    assert stage.begin() == (
        WriteVolumes("team-p", 1, (SelectNode("team", "data", "uid-data", "1", "n1"),)),
    )
    assert stage.written(("team/data", "2")) == NOTHING
    assert stage.see(SELECTED, PROVISIONED) == NOTHING
    assert stage.see(bound("new", class_name="fast", selected="n1")) == DONE


def test_events_before_the_answer_of_the_write_are_not_judged() -> None:
    """The claim is not selected for the node yet: that is no answer of the provisioner."""
    stage = Stage(*DYNAMIC)
    stage.begin()

    assert stage.see(claim(class_name="fast", version="1", phase="Pending")) == NOTHING
    assert stage.tick() == NOTHING
    assert stage.written(("team/data", "7")) == NOTHING
    assert stage.tick() == NOTHING  # the watch still shows version 1


def test_the_watch_may_show_a_write_before_its_answer_comes() -> None:
    stage = Stage(*STATIC)
    stage.begin()

    assert stage.see(GIVEN, bound("pv")) == NOTHING
    assert stage.written(("pv", "2")) == DONE


def test_after_a_restart_nothing_is_written_again() -> None:
    """The API objects say for which node the volume is made, and which claim the volume is for."""
    dynamic = Stage(SELECTED)
    assert dynamic.begin() == NOTHING
    assert dynamic.see(PROVISIONED, bound("new", class_name="fast", selected="n1")) == DONE

    static = Stage(claim(), GIVEN)
    assert static.begin() == NOTHING
    assert static.see(bound("pv")) == DONE


def test_a_volume_whose_author_named_the_claim_is_not_marked_as_ours() -> None:
    stage = Stage(claim(), volume(host="n1", for_claim="team/data"))

    (write,) = stage.begin()

    assert isinstance(write, WriteVolumes)
    (change,) = write.changes
    assert isinstance(change, GiveVolume)
    assert not change.is_ours


@pytest.mark.parametrize(
    ("objects", "seen", "text"),
    [
        pytest.param(
            DYNAMIC,
            [claim(class_name="fast", version="3")],
            "provisioning failed for claim data (class fast; provisioner x.example/y) (node n1)",
            id="the-provisioner-gave-up",
        ),
        pytest.param(
            DYNAMIC,
            [
                claim(class_name="fast", selected="n1", version="3", volumeName="new"),
                volume("new", class_name="fast", zone="b"),
            ],
            "the node affinity of volume new does not match node n1 (node n1)",
            id="the-volume-is-elsewhere",
        ),
        pytest.param(
            DYNAMIC,
            [ev.StorageDeleted(Claim, "team/data")],
            "claim team/data is gone (node n1)",
            id="the-claim-is-gone",
        ),
        pytest.param(
            STATIC,
            [volume(host="n1", version="3")],
            "the claim of volume pv was reset (node n1)",
            id="the-volume-was-taken-back",
        ),
        pytest.param(
            STATIC,
            [volume(host="n1", version="3", for_claim="other/x", claim_uid="u")],
            "volume pv was given to claim other/x (node n1)",
            id="the-volume-is-anothers",
        ),
        pytest.param(
            STATIC,
            [ev.NodeUpdated(node("n1", labels={HOSTNAME: "renamed"})), GIVEN],
            "the node affinity of volume pv does not match node n1 (node n1)",
            id="the-node-lost-its-label",
        ),
        pytest.param(
            STATIC, [GIVEN, ev.NodeDeleted("n1")], "node n1 is gone (node n1)", id="no-node"
        ),
    ],
)
def test_a_wait_that_cannot_end_well_is_ended(objects: Any, seen: Any, text: str) -> None:
    stage = Stage(*objects)
    (write,) = stage.begin()
    assert isinstance(write, WriteVolumes)
    effects = stage.written((write.changes[0].key, "2"))

    assert failure((*effects, *stage.see(*seen))) == text
    assert stage.cluster.assumed == {}
    assert stage.tick() == NOTHING


def test_refused_write_is_tried_again_and_frees_the_unwritten() -> None:
    stage = Stage(*STATIC, claim("more"))
    stage.begin()
    other = pod("q", spec=uses("more"))
    assert codes(stage.cluster, other)

    assert failure(stage.written(problem="pv: 409 Conflict")) == "pv: 409 Conflict (node n1)"

    assert not refused_codes(stage, other)
    assert stage.counted() == {"refused": 1}


def refused_codes(stage: Stage, user: Pod) -> bool:
    return not isinstance(schedule_one(stage.cluster, user, ALLOW_ALL_MAPS), PendingPlacement)


def test_what_was_written_stays_given_until_the_watch_shows_it() -> None:
    """Of two volumes one was written: no other claim gets it, however the placement ends."""
    stage = Stage(claim("data"), claim("logs"), volume("a", host="n1"), volume("b", host="n1"))
    stage.begin(pod("p", spec=uses("data", "logs")))

    failure(stage.written(("a", "2"), problem="b: no answer"))

    free = [one.name for one in stage.cluster.volumes.free(("a", "b"))]
    assert free == ["b"]


def test_the_wait_ends_after_ten_minutes() -> None:
    stage = Stage(*DYNAMIC)
    stage.begin()
    stage.written(("team/data", "2"))
    stage.see(SELECTED)

    assert stage.tick(TIMEOUT_S - 1) == NOTHING
    assert failure(stage.tick(1)) == (
        "not bound within 600 s: data (class fast; provisioner x.example/y) (node n1)"
    )


def test_a_deleted_pod_waits_for_nothing() -> None:
    stage = Stage(*DYNAMIC)
    stage.begin()

    effects = stage.see(ev.PodUpdated(pod("p", spec=uses("data"), deleting=True)))

    assert ev.PodDone("team-p") in effects
    assert stage.cluster.assumed == {}


def test_a_placement_that_another_step_took_back_is_dropped() -> None:
    stage = Stage(*STATIC)
    stage.begin()
    stage.cluster.forget("team-p")

    assert DropPlacement("team-p") in stage.see(GIVEN)
    assert stage.written(("pv", "2")) == NOTHING


def test_an_answer_to_an_earlier_attempt_is_not_taken_for_this_ones() -> None:
    stage = Stage(*STATIC)
    stage.begin()
    stage.cluster.forget("team-p")
    stage.begin()

    assert stage.written(problem="too late", attempt=1) == NOTHING
    assert failure(stage.written(problem="pv: 409", attempt=2)) == "pv: 409 (node n1)"


def test_a_process_that_leads_no_more_gives_up_what_waits() -> None:
    stage = Stage(*DYNAMIC)
    stage.begin()

    assert ev.PodPending(USER) in stage.tick(leads=False)
    assert stage.cluster.assumed == {}


def test_an_unsent_write_is_no_failure_of_the_pod() -> None:
    """The next leader decides about it; its condition is not touched."""
    stage = Stage(*DYNAMIC)
    stage.begin()

    effects = stage.see(ev.VolumesWritten("team-p", 1, is_unsent=True))

    assert ev.PodPending(USER) in effects
    assert not [one for one in effects if isinstance(one, ev.BindFailed)]


def test_a_claim_that_is_gone_before_the_write_ends_the_placement() -> None:
    stage = Stage(*STATIC)
    stage.cluster.upsert_pod(USER)
    decision = schedule_one(stage.cluster, USER, ALLOW_ALL_MAPS)
    assert isinstance(decision, PendingPlacement)
    stage.cluster.volumes.delete(Claim, "team/data")
    stage.cluster.assume(USER, Assumption("n1", decision.devices, volumes=decision.volumes))

    assert failure(stage.controller.begin(decision, 0.0)) == (
        "volume pv or claim team/data is gone (node n1)"
    )
