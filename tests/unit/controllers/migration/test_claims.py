"""Pods whose ResourceClaims got a later subrequest of ``firstAvailable`` are restored to the first.

``tests/claim_migration_world``: n1 has one large device and three small ones.
"""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.crd.migration_actions import CreateMigration, EvictPod
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from tests.builders import node, pod
from tests.claim_migration_world import ClaimWorld, devices, either, web
from tests.dra import DRIVER, device_class, resource_claim
from tests.migration_world import Workload
from tests.unit.plugins.dynamic_resources.claim_world import mig_card

MINUTE_S = 60.0
NEVER = {well_known.RESTORE: "never"}
#: A preference for n2.
PREFERS_N2 = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {
                    "matchExpressions": [
                        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n2"]}
                    ]
                },
            }
        ]
    }
}
#: The claim of ``test_claim_that_the_pod_names_is_not_restored``.
NAMED = [{"name": "accel", "resourceClaimName": "shared"}]


def full(workload: Workload | None = None, **more: Any) -> ClaimWorld:
    """A workload whose pods got small devices, old enough to migrate; ``holder`` has the large."""
    world = ClaimWorld(**more)
    world.user("holder")
    world.add(workload or web())
    world.pass_time(2 * MINUTE_S)
    assert sizes(world) == {"small"}
    assert world.writes == []
    return world


def sizes(world: ClaimWorld) -> set[str]:
    return {name.partition("-")[0] for name in world.given("web")}


def free_the_device(world: ClaimWorld) -> None:
    """The pod with the large device ends."""
    [holder] = [one for one in world.pods.values() if one.name == "holder"]
    world.remove(holder.uid)


def test_freed_device_goes_to_a_pod_with_a_later_subrequest() -> None:
    world = full()

    free_the_device(world)
    world.pass_time(5)

    assert world.given("web") == ["large-0", "small-1"]
    assert world.results == [("Restore", "succeeded")]
    [(_, why, restoring), (_, then, restored)] = world.notes
    assert (why, then) == ("Restoring", "Restored")
    assert "accel/gpu/large is free on node n1, it runs with accel/gpu/small" in restoring
    assert "has accel/gpu/large in place of accel/gpu/small" in restored
    world.check()


def test_the_other_replicas_stay_as_they_are() -> None:
    world = full()

    free_the_device(world)
    world.pass_time(10 * MINUTE_S, 5)

    assert len(world.sent(EvictPod)) == 1
    assert (world.open, world.cluster.nominations.plans) == ({}, {})


@pytest.mark.parametrize("after", range(6))
def test_crash_after_any_action_is_resumed(after: int) -> None:
    """The next process has only pods, claims and PodMigrations."""
    world = full()
    free_the_device(world)
    world.run_actions(after)

    world.restart()
    world.pass_time(2 * MINUTE_S)

    assert world.given("web") == ["large-0", "small-1"]
    assert world.open == {}
    assert len(world.sent(EvictPod)) <= 2
    world.check()


@pytest.mark.parametrize(
    ("priority", "got"),
    [
        pytest.param(0, "small", id="equal"),
        pytest.param(-5, "small", id="weaker"),
        pytest.param(5, "large", id="stronger"),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_only_a_higher_priority_pod_takes_the_awaited_device(
    priority: int, got: str, *, restarts: bool
) -> None:
    """A new leader knows the device from the PodMigration."""
    workload = web()
    world = full(workload)
    workload.is_closed = True  # no replacement comes
    free_the_device(world)
    world.pass_time(5)
    assert len(world.open) == 1
    if restarts:
        world.restart()

    newcomer = world.user("new", priority=priority)

    [device] = world.devices_of(newcomer)
    assert device.partition("-")[0] == got


@pytest.mark.parametrize(
    ("seconds", "result"),
    [
        pytest.param(5, "succeeded", id="in-time"),
        pytest.param(2 * MINUTE_S, "deadline_exceeded", id="too-late"),
    ],
)
def test_result_waits_for_the_claim_of_the_bound_replacement(seconds: float, result: str) -> None:
    """The watch of claims may be behind that of pods."""
    world = full()
    free_the_device(world)
    while not world.sent(EvictPod):
        world.now += 1.0
        world.take_steps()
        while world.actions and not world.sent(EvictPod):
            world.run_one()
    world.control()
    world.is_behind = True
    world.pass_time(seconds)
    assert len(world.of("web")) == len([one for one in world.of("web") if one.node_name]) == 2
    assert bool(world.open) is (result == "succeeded")

    world.catch_up()
    world.pass_time(5)

    assert world.results == [("Restore", result)]
    assert world.open == {}


def test_replacement_with_a_later_subrequest_again_is_a_failure() -> None:
    """A pod of a higher priority took the device meanwhile."""
    workload = web()
    world = full(workload)
    workload.is_closed = True
    free_the_device(world)
    world.pass_time(5)
    world.user("important", priority=5)
    workload.is_closed = False

    world.pass_time(5)

    assert world.results == [("Restore", "tier_not_granted")]
    [text] = world.said("web", "MigrationFailed")
    assert text.endswith("failed: its replacement has accel/gpu/small")
    assert sizes(world) == {"small"}


def test_waiting_pod_gets_the_device_of_a_failed_migration() -> None:
    workload = web()
    world = full(workload)
    world.templates["large-only"] = (either("large"),)
    workload.is_closed = True
    free_the_device(world)
    world.pass_time(5)
    waiting = world.user("waiting", template="large-only")
    assert not waiting.node_name

    world.pass_time(2 * MINUTE_S)

    assert world.results == [("Restore", "deadline_exceeded")]
    assert world.devices_of(world.pods[waiting.uid]) == ["large-0"]


@pytest.mark.parametrize("count", [1, 2])
def test_pod_that_waits_for_devices_has_precedence_over_a_restore(count: int) -> None:
    """While the queue is busy it is not decided again. Of two devices one was free before."""
    world = ClaimWorld(devices("n1", large=count, small=2))
    holders = [world.user(f"holder{number}") for number in range(count)]
    world.add(web())
    world.templates["all-large"] = tuple(either("large", name=f"gpu{at}") for at in range(count))
    for holder in holders[1:]:
        world.remove(holder.uid)
    waiting = world.user("waiting", template="all-large")
    world.now += 2 * MINUTE_S
    assert not waiting.node_name
    assert sizes(world) == {"small"}

    world.remove(holders[0].uid)
    for _ in range(5):
        world.now += 1.0
        world.take_steps()
    assert world.actions == []

    world.decide_due()
    assert len(world.devices_of(world.pods[waiting.uid])) == count


def test_only_the_first_subrequest_is_a_reason_to_evict() -> None:
    world = full()
    world.add_slice(devices("n2", medium=2))

    world.pass_time(5 * MINUTE_S)

    assert (world.writes, world.notes) == ([], [])


def test_all_requests_of_a_pod_are_restored_together() -> None:
    both = (either(name="left"), either(name="right"))
    world = ClaimWorld(devices("n1", large=2, small=4))
    world.templates["both"] = both
    world.user("holder")
    world.user("other")
    world.add(web(template="both"))
    world.pass_time(2 * MINUTE_S)

    free_the_device(world)
    world.pass_time(MINUTE_S)
    assert world.writes == []
    [other] = [one for one in world.pods.values() if one.name == "other"]
    world.remove(other.uid)
    world.pass_time(5)

    assert world.given("web") == ["large-0", "large-1", "small-2", "small-3"]
    [(_, create), *_] = world.sent(CreateMigration)
    assert isinstance(create, CreateMigration)
    assert create.migration.change == (
        "accel/left/small and accel/right/small->accel/left/large and accel/right/large"
    )


def test_replacement_goes_to_the_node_where_its_device_is_held() -> None:
    """Although it prefers another one, where it would get a small device again."""
    world = ClaimWorld(devices("n1", large=1), devices("n2", small=2))
    holder = world.user("holder")
    workload = web()
    workload.fields["spec"]["affinity"] = PREFERS_N2
    world.add(workload)
    world.pass_time(2 * MINUTE_S)
    assert sizes(world) == {"small"}

    world.remove(holder.uid)
    world.pass_time(5)

    assert world.results == [("Restore", "succeeded")]
    assert world.given("web") == ["large-0", "small-1"]


# --- what is not migrated ------------------------------------------------------------------------


def test_claim_that_the_pod_names_is_not_restored() -> None:
    world = ClaimWorld()
    world.user("holder")
    world.store(resource_claim("shared", either()))
    named = Workload("web", 2, tier="", fields={"spec": {"resourceClaims": NAMED}})
    world.add(named)
    world.pass_time(2 * MINUTE_S)
    assert sizes(world) == {"small"}

    free_the_device(world)
    world.pass_time(10 * MINUTE_S, 5)

    assert world.writes == []
    text = (
        "accel/gpu/small->accel/gpu/large is possible now, but the pod is not migrated: it names"
        " ResourceClaim shared, which its replacement would use as it is; only claims of a"
        " resourceClaimTemplateName are created again"
    )
    assert [(reason, said) for _, reason, said in world.notes] == [("MigrationBlocked", text)] * 2


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        pytest.param(web(1), "MigrationBlocked", id="only-replica"),
        pytest.param(web(allowed=0), "MigrationBlocked", id="budget"),
        pytest.param(web(annotations=NEVER), "", id="opted-out"),
    ],
)
def test_the_preconditions_of_migrations_hold(workload: Workload, said: str) -> None:
    world = full(workload)

    free_the_device(world)
    world.pass_time(5 * MINUTE_S, 5)

    assert world.writes == []
    assert {reason for _, reason, _ in world.notes} == ({said} if said else set())


def test_report_mode_says_what_is_possible() -> None:
    world = full(mode="report")

    free_the_device(world)
    world.pass_time(2 * MINUTE_S)

    assert world.writes == []
    assert {(reason, text.partition(" is possible")[0]) for _, reason, text in world.notes} == {
        ("MigrationPossible", "accel/gpu/small->accel/gpu/large")
    }


# --- MIG tiers of nodes whose partitions are DRA devices ---------------------------------------


def mig_classes() -> tuple[DeviceClass, ...]:
    """What the chart creates for ``dra.migClasses``."""
    return tuple(
        device_class(
            f"mig-{profile}",
            f"device.attributes['{DRIVER}'].profile == '{profile}'",
            extendedResourceName=f"nvidia.com/mig-{profile}",
        )
        for profile in ("4g.40gb", "2g.20gb", "1g.10gb")
    )


def on_a_card(*tiers: str) -> tuple[ClaimWorld, list[Pod]]:
    """A card with a bare pod for each of these tiers, and a workload that wants 2g.20gb."""
    world = ClaimWorld(*mig_card(), of=mig_classes())
    placed = []
    for number, tier in enumerate(tiers):
        made = world.create(pod(f"bare{number}", uid="", mig={tier: 1}))
        world.decide_due()
        assert made is not None
        placed.append(made)
    world.add(Workload("web", 1, annotations={well_known.RESTORE: "auto"}))
    return world, placed


def test_mig_tier_of_dra_partitions_is_restored() -> None:
    world, (_, holder) = on_a_card("4g.40gb", "2g.20gb")
    world.pass_time(2 * MINUTE_S)
    assert (world.tiers("web"), world.given("web")) == (["1g.10gb"], ["0-1g.10gb-6"])

    world.remove(holder.uid)
    world.pass_time(5)

    assert (world.tiers("web"), world.given("web")) == (["2g.20gb"], ["0-2g.20gb-4"])
    assert world.results == [("Restore", "succeeded")]
    world.check()


def test_mig_tier_from_dra_is_restored_on_a_device_plugin_node() -> None:
    """The claim for its extended resources goes with the pod."""
    world, _ = on_a_card("4g.40gb", "2g.20gb")
    world.pass_time(2 * MINUTE_S)

    world.nodes["n2"] = node("n2", mig={"2g.20gb": 1})
    world.deliver(ev.NodeUpdated(world.nodes["n2"]))
    world.pass_time(5)

    [moved] = world.of("web")
    assert (moved.node_name, world.tiers("web"), world.given("web")) == ("n2", ["2g.20gb"], [])


def test_pending_pod_is_rescued_to_a_tier_of_dra_partitions() -> None:
    world, (*_, last) = on_a_card("4g.40gb", "2g.20gb", "1g.10gb")
    assert world.tiers("web") == []

    world.remove(last.uid)
    world.pass_time(2 * MINUTE_S)

    assert (world.tiers("web"), world.given("web")) == (["1g.10gb"], ["0-1g.10gb-6"])
    assert world.results == [("Rescue", "succeeded")]
    world.check()
