"""Seed 003's own fixtures, and what it was found to do wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from scheduler.decide.admission.admit import Rules
from scheduler.model import well_known
from scheduler.model.crd.migration_actions import EvictPod
from scheduler.model.mig.fallback_ladder import parse_ladder
from scheduler.model.node import Node
from scheduler.model.pods.original_request import with_original_request
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota
from scheduler.plugins import REASON_CODES
from scheduler.state import event as ev
from tests.builders import cluster, codes, container, node, placed, pod
from tests.migration_world import Workload, World

#: The seed's direction: to a type that is as large or larger.
UP = Rules(ladders=(parse_ladder("1g.5gb->2g.10gb->3g.20gb"),))
MINUTE_S = 60.0


def seed_nodes() -> tuple[Node, Node]:
    """The fixtures of the seed's tests."""
    return (
        node("node1", mig={"2g.10gb": 1, "3g.20gb": 1}),
        node("node2", mig={"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}),
    )


def bare(world: World, tier: str, **fields: Any) -> Pod:
    made = world.create(pod("bare", uid="", mig={tier: 1}, **fields))
    world.decide_due()
    assert made is not None
    return world.pods[made.uid]


def small(name: str = "small", **more: Any) -> Workload:
    return Workload(name, 1, tier="1g.5gb", annotations={well_known.RESTORE: "auto"}, **more)


@pytest.mark.contract("S3-23", "S3-16", "S3-B1")
def test_pending_small_request_gets_the_next_larger_profile() -> None:
    """On node1 there is none of its own type; the smallest larger one is taken, 1:1."""
    only = node("node1", mig={"2g.10gb": 1, "3g.20gb": 1}, labels={"pool": "one"})
    world = World(only, seed_nodes()[1], rules=UP)
    holders = [bare(world, tier, selector={"pool": "one"}) for tier in ("2g.10gb", "3g.20gb")]
    world.add(small(fields={"selector": {"pool": "one"}}))
    assert world.tiers("small") == []

    world.remove(holders[0].uid)
    world.pass_time(2 * MINUTE_S)

    assert world.tiers("small") == ["2g.10gb"]
    [moved] = world.of("small")
    assert (moved.node_name, moved.annotations[well_known.FALLBACK]) == ("node1", "1g.5gb->2g.10gb")


@pytest.mark.contract("S3-1", "S3-23", "S3-20")
def test_upsized_pod_returns_when_its_profile_is_free() -> None:
    world = World(*seed_nodes(), rules=UP)
    holders = [bare(world, "1g.5gb") for _ in range(2)]
    world.add(small())
    assert world.tiers("small") == ["2g.10gb"]
    world.pass_time(2 * MINUTE_S)

    world.remove(holders[0].uid)
    world.pass_time(5)

    assert world.tiers("small") == ["1g.5gb"]


@pytest.mark.contract("S3-B2")
def test_without_free_slices_no_migrated_pod_is_evicted() -> None:
    world = World(*seed_nodes(), rules=UP)
    for _ in range(2):
        bare(world, "1g.5gb")
    world.add(small())
    for number in range(100):
        gone = world.create(pod(f"other{number}", uid=""))
        assert gone is not None
        world.remove(gone.uid)
        world.pass_time(10, 5)

    assert world.writes == []
    assert world.tiers("small") == ["2g.10gb"]


@pytest.mark.contract("S3-B3", "S3-B19")
def test_every_container_counts_and_non_mig_ones_are_ignored() -> None:
    """A sidecar of a mesh beside two containers with slices, one of them an init container."""
    record = {
        "a": {"limits": {"nvidia.com/mig-2g.20gb": "1"}},
        "setup": {"requests": {"nvidia.com/mig-2g.20gb": "1"}},
    }
    small_one = {"nvidia.com/mig-1g.10gb": 1}
    degraded = pod(
        containers=[
            container("a", requests=small_one),
            container("mesh"),
            container("b", requests=small_one),
        ],
        init=[container("setup", requests=small_one)],
        annotations={
            well_known.FALLBACK: "2g.20gb->1g.10gb",
            well_known.ORIGINAL: msgspec.json.encode(record).decode(),
        },
    )

    asked = with_original_request(degraded)

    assert asked is not None
    assert asked.gpu_requests == {"nvidia.com/mig-2g.20gb": 1, "nvidia.com/mig-1g.10gb": 1}


@pytest.mark.contract("S3-B19")
def test_the_containers_of_a_pod_are_never_split_over_nodes() -> None:
    """Two slices are free, one on each node: for a pod of two containers that is not enough."""
    one_each = {"nvidia.com/mig-2g.20gb": 1}
    both = pod(containers=[container("a", requests=one_each), container("b", requests=one_each)])
    apart = [node(name, mig={"2g.20gb": 1}) for name in ("n1", "n2")]

    assert codes(cluster(*apart), both) == {REASON_CODES["INSUFFICIENT"]}
    assert placed(cluster(*apart, node("n3", mig={"2g.20gb": 2})), both).node_name == "n3"


@pytest.mark.contract("S3-20")
@pytest.mark.parametrize("first", ["important", "older"])
def test_restore_prefers_higher_priority_and_then_the_older_pod(
    first: str,
) -> None:
    world = World(node("a", mig={"2g.20gb": 1, "1g.10gb": 4}))
    holder = bare(world, "2g.20gb")
    world.add(Workload("older", 2))
    world.pass_time(MINUTE_S)
    world.add(Workload("important", 2, priority=1 if first == "important" else 0))
    world.pass_time(2 * MINUTE_S)

    world.remove(holder.uid)
    world.pass_time(5)

    assert [name for name in ("important", "older") if "2g.20gb" in world.tiers(name)] == [first]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"app": 1}', '{"app": {"limits": {"nvidia.com/gpu": "x"}}}', "{}"]
)
def test_unreadable_record_migrates_no_pod(text: str) -> None:
    marked = {well_known.FALLBACK: "2g.20gb->1g.10gb", well_known.ORIGINAL: text}

    assert with_original_request(pod(mig={"1g.10gb": 1}, annotations=marked)) is None


@pytest.mark.contract("S3-B4")
def test_running_pod_of_a_deleted_node_is_no_obstacle() -> None:
    world = World(*seed_nodes(), rules=UP)
    holders = [bare(world, "1g.5gb") for _ in range(2)]
    world.add(small())
    world.pass_time(2 * MINUTE_S)
    lost = bare(world, "3g.20gb")

    world.nodes.pop("node1")
    world.deliver(ev.NodeDeleted("node1"))
    world.remove(holders[0].uid)
    world.pass_time(5)

    assert world.pods[lost.uid].node_name
    assert world.tiers("small") == ["1g.5gb"]


@pytest.mark.contract("S3-B8")
def test_no_pod_gets_less_memory_without_a_ladder() -> None:
    """Compute first would send 1g.20gb to 2g.10gb."""
    world = World(node("n", mig={"2g.10gb": 2, "1g.20gb": 1}))
    bare(world, "1g.20gb")
    world.add(Workload("wide", 1, tier="1g.20gb"))

    world.pass_time(10 * MINUTE_S, 5)

    assert (world.writes, world.tiers("wide")) == ([], [])


@pytest.mark.contract("S3-B9")
@pytest.mark.parametrize(
    "looks",
    [
        pytest.param({"cordoned": True}, id="cordoned"),
        pytest.param({"taints": ["dedicated=x:NoSchedule"]}, id="tainted"),
        pytest.param({"labels": {"pool": "other"}}, id="another-pool"),
    ],
)
def test_no_pod_migrates_to_a_place_it_cannot_use(looks: Mapping[str, Any]) -> None:
    mine = {"labels": {"pool": "mine"}, **looks}
    world = World(
        node("home", mig={"1g.10gb": 2}, labels={"pool": "mine"}), node("new", mig={}, **mine)
    )
    world.add(Workload("web", 2, fields={"selector": {"pool": "mine"}}))
    world.pass_time(2 * MINUTE_S)
    assert world.tiers("web") == ["1g.10gb", "1g.10gb"]

    grown = node("new", mig={"2g.20gb": 2}, **mine)
    world.nodes["new"] = grown
    world.deliver(ev.NodeUpdated(grown))
    world.pass_time(5 * MINUTE_S)

    assert world.writes == []


@pytest.mark.contract("S3-B15")
@pytest.mark.parametrize("how", ["completion", "completion-seen", "new-node", "new-geometry"])
def test_capacity_from_any_source_triggers_planning(how: str) -> None:
    world = World(node("a", mig={"2g.20gb": 1, "1g.10gb": 3}))
    holder = bare(world, "2g.20gb")
    world.add(Workload("web", 2))
    world.pass_time(2 * MINUTE_S)

    if how == "completion":  # it leaves the watch's selector, which the watch reports as a deletion
        world.deliver(ev.PodDeleted(holder.uid))
    if how == "completion-seen":
        world.deliver(ev.PodUpdated(msgspec.structs.replace(holder, phase="Succeeded")))
    if how == "new-node":
        world.nodes["b"] = node("b", mig={"2g.20gb": 1})
        world.deliver(ev.NodeUpdated(world.nodes["b"]))
    if how == "new-geometry":
        world.nodes["a"] = node("a", mig={"2g.20gb": 2, "1g.10gb": 3})
        world.deliver(ev.NodeUpdated(world.nodes["a"]))
    world.pass_time(5)

    assert world.tiers("web") == ["1g.10gb", "2g.20gb"]


@pytest.mark.contract("S3-B16")
def test_planning_is_read_only_and_order_independent() -> None:
    def moved(names_of: list[str]) -> list[str]:
        world = World(node("a", mig={"2g.20gb": 1, "1g.10gb": 6}))
        holder = bare(world, "2g.20gb")
        for name in names_of:
            world.add(Workload(name, 2))
        world.pass_time(5 * MINUTE_S, 5)
        assert (world.actions, world.writes) == ([], [])
        shuffled = {one.uid: one for one in reversed(list(world.pods.values()))}
        world.pods = shuffled if names_of[0] == "one" else world.pods
        world.restart()
        world.remove(holder.uid)
        world.pass_time(5)
        [(_, action)] = world.sent(EvictPod)
        assert isinstance(action, EvictPod)
        return [action.migration.pod_uid]

    assert moved(["one", "two"]) == moved(["two", "one"])


@pytest.mark.contract("S3-B20")
def test_unreadable_owner_blocks_the_migration() -> None:
    world = World(node("a", mig={"2g.20gb": 1, "1g.10gb": 3}))
    holder = bare(world, "2g.20gb")
    world.add(Workload("web", 2))
    world.pass_time(2 * MINUTE_S)
    world.is_silent = True

    world.remove(holder.uid)
    world.pass_time(5 * MINUTE_S)
    assert world.writes == []

    world.is_silent = False
    world.pass_time(10 * MINUTE_S)
    assert world.tiers("web") == ["1g.10gb", "2g.20gb"]


def without_newcomers() -> tuple[World, Workload]:
    """An object exists for one of two pods, and no replacement can claim it."""
    workload = Workload("web", 2)
    world = World(node("a", mig={"2g.20gb": 1, "1g.10gb": 3}))
    holder = bare(world, "2g.20gb")
    world.add(workload)
    world.pass_time(2 * MINUTE_S)
    workload.is_closed = True
    world.remove(holder.uid)
    world.pass_time(5)
    return world, workload


@pytest.mark.contract("S3-B14")
def test_dry_run_and_label_patch_do_not_consume_a_ticket() -> None:
    world, workload = without_newcomers()
    [migration] = world.open.values()
    asked = pod("web-x", uid="", owner="Deployment/web@r1", mig={"2g.20gb": 1})
    [sibling] = world.of("web")

    for number in range(5):
        assert world.moves.migration_for(asked) == migration  # as a dry run asks
        labels = {**sibling.labels, "touched": str(number)}
        world.show(msgspec.structs.replace(sibling, labels=labels))

    workload.is_closed = False
    world.pass_time(5)
    assert world.tiers("web") == ["1g.10gb", "2g.20gb"]


@pytest.mark.contract("S3-11", "S3-B7")
def test_a_ticket_is_for_pods_of_its_owner_and_template_only() -> None:
    world, _ = without_newcomers()
    assert len(world.open) == 1

    def taken(owner: str, **fields: Any) -> bool:
        asked = pod("x", uid="", owner=owner, mig={"2g.20gb": 1}, **fields)
        return world.moves.migration_for(asked) is not None

    assert taken("Deployment/web@r1")
    assert not taken("Deployment/web@r2")
    assert not taken("Deployment/webber@r1")
    assert not taken("Deployment/web@r1", namespace="other")
    assert not taken("")


@pytest.mark.parametrize(
    ("hard", "expected"),
    [
        pytest.param(0, ["1g.10gb", "1g.10gb"], id="full"),
        pytest.param(1, ["1g.10gb", "2g.20gb"], id="room-for-one"),
    ],
)
def test_no_pod_migrates_where_a_quota_refuses_the_replacement(
    hard: int, expected: list[str]
) -> None:
    """Its controller could not make it again, with either tier."""
    world = World(node("a", mig={"2g.20gb": 1, "1g.10gb": 3}))
    holder = bare(world, "2g.20gb", namespace="other")
    world.add(Workload("web", 2))
    world.pass_time(2 * MINUTE_S)
    world.cluster.quotas.upsert(
        Quota(namespace="team", name="big", hard={"nvidia.com/mig-2g.20gb": hard})
    )

    world.remove(holder.uid)
    world.pass_time(5 * MINUTE_S)

    assert world.tiers("web") == expected
