"""The cluster state: the effect of each event, and the changes for the queue."""

from __future__ import annotations

import pytest

from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold
from scheduler.state.invariant import InvariantViolation
from tests.builders import GPU, PodFields, cluster, node, pod

GPU_0 = Devices(numbers=(0,))
NEEDY = pod("a", gpus=1)
FREED = [
    ev.ClusterEvent(RequeueCause.FREED, node_name="n1", what=frozenset((GPU, "pods"))),
    ev.ClusterEvent(RequeueCause.DEVICES, node_name="n1"),
]


def free(state: Cluster, name: str = "n1") -> int:
    return state.nodes.node_info[name].free(GPU)


def assumed(*, with_gpu_indexes: bool = True) -> Cluster:
    """A node with two GPUs, one of which we just gave away."""
    state = cluster(node(gpus=2, with_gpu_indexes=with_gpu_indexes), NEEDY)
    state.assume(NEEDY, Assumption("n1", GPU_0))
    return state


# --- a pod's way through the state ---------------------------------------------------


def test_a_new_pod_of_ours_waits() -> None:
    assert cluster().upsert_pod(NEEDY) == [ev.PodPending(NEEDY)]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(pod("a", gpus=1, gates=["x.example/hold"]), id="gated"),
        pytest.param(pod("a", gpus=1, deleting=True), id="being-deleted"),
    ],
)
def test_a_pod_that_may_not_be_placed_needs_no_decision(changed: Pod) -> None:
    assert cluster(NEEDY).upsert_pod(changed) == [ev.PodDone(NEEDY.uid)]


def test_the_last_gate_removed_makes_a_pod_wait() -> None:
    """Semantics case 2: at once, without a pause."""
    two, one = (
        pod("a", gates=gates) for gates in (["a.example/x", "b.example/x"], ["a.example/x"])
    )
    state = cluster(two)

    assert state.upsert_pod(one) == [ev.PodDone(one.uid)]
    assert state.upsert_pod(pod("a")) == [ev.PodPending(pod("a"))]


def test_own_condition_update_is_no_change() -> None:
    """Semantics case 9."""
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]

    assert cluster(NEEDY).upsert_pod(pod("a", gpus=1, status={"conditions": conditions})) == []


def test_changed_request_is_a_change() -> None:
    """Semantics case 10."""
    changed = pod("a", gpus=1, labels={"app": "x"})

    assert cluster(NEEDY).upsert_pod(changed) == [ev.PodPending(changed)]


def test_pending_pod_of_another_scheduler_is_ignored() -> None:
    assert cluster().upsert_pod(pod("a", gpus=1, scheduler="default-scheduler")) == []


def test_an_assumed_pod_holds_like_a_bound_one() -> None:
    """Semantics case 27."""
    state = assumed()

    assert (free(state), state.nodes.node_info["n1"].free_indexes()) == (1, (1,))


def test_assuming_twice_is_a_bug() -> None:
    with pytest.raises(InvariantViolation, match="team/a is placed twice"):
        assumed().assume(NEEDY, Assumption("n1", GPU_0))


def test_update_of_an_assumed_pod_keeps_the_assumption() -> None:
    state = assumed()

    assert state.upsert_pod(pod("a", gpus=1, labels={"app": "x"})) == []
    assert (free(state), NEEDY.uid in state.assumed) == (1, True)


def test_the_watch_confirms_what_we_assumed() -> None:
    state = assumed()
    bound = pod("a", gpus=1, node="n1", devices="gpu:0")

    assert state.upsert_pod(bound) == [ev.PodDone(bound.uid)]
    assert (state.assumed, free(state), state.nodes.node_info["n1"].free_indexes()) == ({}, 1, (1,))


def test_watch_overrides_the_assumption_when_bound_elsewhere() -> None:
    state = assumed()
    state.upsert_node(node("n2", gpus=1))

    assert state.upsert_pod(pod("a", gpus=1, node="n2")) == [ev.PodDone(NEEDY.uid), *FREED]
    assert (state.assumed, free(state), free(state, "n2")) == ({}, 2, 0)


def test_forgotten_assumption_frees_everything() -> None:
    state = assumed()

    assert state.forget(NEEDY.uid) == [*FREED, ev.ClusterEvent(RequeueCause.OWNER, NEEDY.workload)]
    assert (state.assumed, free(state)) == ({}, 2)
    assert state.forget(NEEDY.uid) == []


def test_assumption_given_up_frees_everything_and_the_pod_waits_again() -> None:
    state = assumed()

    assert state.give_up(NEEDY.uid)[-1] == ev.PodPending(NEEDY)
    assert (state.assumed, free(state)) == ({}, 2)


def test_assumption_of_a_deleted_pod_given_up_ends_its_wait() -> None:
    state = assumed()
    state.upsert_pod(pod("a", gpus=1, deleting=True))

    assert state.give_up(NEEDY.uid)[-1] == ev.PodDone(NEEDY.uid)


GONE_PODS = [
    pytest.param(ev.PodDeleted("team-a"), id="deleted"),
    pytest.param(ev.PodUpdated(pod("a", gpus=1, node="n1", phase="Succeeded")), id="succeeded"),
    pytest.param(ev.PodUpdated(pod("a", gpus=1, node="n1", phase="Failed")), id="failed"),
    pytest.param(ev.PodsReplaced(()), id="missing-from-a-list"),
]


@pytest.mark.parametrize("event", GONE_PODS)
def test_finished_pod_frees_its_devices(event: ev.Event) -> None:
    """Semantics cases 13 and 14."""
    bound = pod("a", gpus=1, node="n1")
    state = cluster(node(gpus=2), bound)

    changes = fold(state, event)

    assert changes == [
        ev.PodDone(bound.uid),
        *FREED,
        ev.ClusterEvent(RequeueCause.OWNER, bound.workload),
    ]
    assert (free(state), state.pods) == (2, {})


def test_a_pod_with_a_grace_period_holds_until_it_is_gone() -> None:
    """Semantics case 24."""
    state = cluster(node(gpus=1), pod("a", gpus=1, node="n1"))
    state.upsert_pod(pod("a", gpus=1, node="n1", deleting=True))

    assert free(state) == 0


def test_a_foreign_pod_counts_from_the_moment_it_is_bound() -> None:
    """Semantics case 4, field case C11."""
    state = cluster(node(gpus=1), pod("a", gpus=1, scheduler="default-scheduler"))

    assert free(state) == 1
    state.upsert_pod(pod("a", gpus=1, scheduler="default-scheduler", node="n1"))
    assert free(state) == 0


def test_an_unknown_pods_end_is_no_change() -> None:
    assert cluster().delete_pod("absent") == []


def test_late_devices_annotation_is_applied() -> None:
    state = cluster(node(gpus=2, with_gpu_indexes=True), pod("a", gpus=1, node="n1"))

    assert state.nodes.node_info["n1"].usage.unknown == 1
    changes = state.upsert_pod(pod("a", gpus=1, node="n1", devices="gpu:1"))
    assert changes[-1:] == [ev.ClusterEvent(RequeueCause.DEVICES, node_name="n1")]
    assert state.nodes.node_info["n1"].free_indexes() == (0,)


def test_a_pod_that_was_resized_frees_what_it_gave_up() -> None:
    state = cluster(node(cpu="4"), pod("a", node="n1", requests={"cpu": "3"}))

    changes = state.upsert_pod(pod("a", node="n1", requests={"cpu": "1"}))

    assert ev.ClusterEvent(RequeueCause.FREED, node_name="n1", what=frozenset(("cpu",))) in changes
    assert state.nodes.node_info["n1"].free("cpu") == 3000


# --- the end of a Binding ------------------------------------------------------------

ENDS = [
    pytest.param(ev.BindOutcome.BOUND, 1, [], id="bound-waits-for-the-watch"),
    pytest.param(ev.BindOutcome.TAKEN, 2, [], id="taken-by-another"),
    pytest.param(ev.BindOutcome.REFUSED, 2, [ev.BindFailed(NEEDY, "no")], id="refused"),
    pytest.param(ev.BindOutcome.UNREACHABLE, 2, [ev.BindFailed(NEEDY, "no")], id="unreachable"),
    pytest.param(ev.BindOutcome.UNSENT, 2, [ev.PodPending(NEEDY)], id="never-sent"),
    pytest.param(ev.BindOutcome.GONE, 2, [ev.PodDone(NEEDY.uid)], id="gone"),
]


@pytest.mark.parametrize(("outcome", "left", "changes"), ENDS)
def test_how_a_binding_ends(outcome: ev.BindOutcome, left: int, changes: list[ev.Change]) -> None:
    state = assumed()

    found = fold(state, ev.BindEnded(NEEDY.uid, outcome, "no"))

    assert free(state) == left
    assert [change for change in found if not isinstance(change, ev.ClusterEvent)] == changes
    assert (NEEDY.uid in state.pods) is (outcome is not ev.BindOutcome.GONE)


def test_failed_binding_of_a_terminating_pod_is_not_retried() -> None:
    state = assumed()
    state.upsert_pod(pod("a", gpus=1, deleting=True))

    found = fold(state, ev.BindEnded(NEEDY.uid, ev.BindOutcome.REFUSED, "is being deleted"))

    assert [c for c in found if not isinstance(c, ev.ClusterEvent)] == [ev.PodDone(NEEDY.uid)]
    assert free(state) == 2


@pytest.mark.parametrize("outcome", ev.BindOutcome)
def test_bind_result_after_the_watch_changes_nothing(outcome: ev.BindOutcome) -> None:
    state = assumed()
    state.upsert_pod(pod("a", gpus=1, node="n1", devices="gpu:0"))

    assert fold(state, ev.BindEnded(NEEDY.uid, outcome)) == []
    assert free(state) == 1


def test_a_pod_released_while_it_is_assumed_is_kept_as_it_is_now() -> None:
    owned, released = pod("a", owner="StatefulSet/w"), pod("a")
    state = cluster(node(), owned)
    state.upsert_pod(released)
    state.assume(owned, Assumption("n1", Devices()))

    assert state.pods[owned.uid] == released
    assert state.delete_pod(owned.uid)[-1] == ev.ClusterEvent(RequeueCause.OWNER, released.workload)


def test_released_pod_no_longer_shares_with_siblings() -> None:
    fields: PodFields = {"map": "0=n1:0", "node": "n1", "devices": "gpu:0"}
    owned: PodFields = {**fields, "owner": "StatefulSet/w"}
    state = cluster(node(), pod("a", **owned))
    state.upsert_pod(pod("a", **fields))

    [allocation] = state.nodes.node_info["n1"].usage.holders[0]
    assert allocation.sharing == pod("a", **fields).sharing


def test_status_update_of_a_placed_pod_is_stored() -> None:
    state = cluster(node(gpus=1), pod("a", gpus=1, node="n1"))
    running = pod("a", gpus=1, node="n1", phase="Running")

    assert state.upsert_pod(running) == []
    assert state.nodes.node_info["n1"].pods[running.uid][0] == running


# --- nodes ---------------------------------------------------------------------------


def test_a_deleted_node_is_no_candidate_but_its_pods_are_remembered() -> None:
    """Semantics case 15, field case C16 steps 4 to 6."""
    held = pod("k", gpus=1, node="gpu-a", devices="gpu:3")
    state = cluster(node("gpu-a", gpus=4, with_gpu_indexes=True, uid="old"), held)

    assert state.delete_node("gpu-a") == [ev.ClusterEvent(RequeueCause.NODE, node_name="gpu-a")]
    assert (list(state.candidates()), len(state.nodes)) == ([], 0)
    assert state.delete_node("gpu-a") == []

    state.upsert_node(node("gpu-a", gpus=2, with_gpu_indexes=True, uid="new"))
    node_info = state.nodes.node_info["gpu-a"]
    assert (node_info.free(GPU), node_info.free_indexes()) == (1, (0, 1))

    state.delete_pod(held.uid)
    assert node_info.free(GPU) == 2


def test_node_replaced_without_delete_event_gives_the_same_state() -> None:
    """Field case C16, last sentence."""
    held = pod("k", gpus=1, node="gpu-a", devices="gpu:3")
    state = cluster(node("gpu-a", gpus=4, with_gpu_indexes=True, uid="old"), held)
    state.upsert_node(node("gpu-a", gpus=2, with_gpu_indexes=True, uid="new"))

    assert (state.nodes.node_info["gpu-a"].free(GPU), len(state.nodes)) == (1, 1)


def test_node_info_of_a_deleted_node_ends_with_its_last_pod() -> None:
    state = cluster(node(gpus=1), pod("a", node="n1"))
    state.delete_node("n1")
    state.delete_pod("team-a")

    assert state.nodes.node_info == {}


def test_a_pod_may_be_seen_before_its_node() -> None:
    state = cluster(pod("a", gpus=1, node="n1"))

    assert list(state.candidates()) == []
    state.upsert_node(node(gpus=2))
    assert free(state) == 1


def test_node_list_removes_missing_nodes() -> None:
    state = cluster(node("n1"), node("n2"))

    lifted = [ev.ClusterEvent(RequeueCause.NODE, node_name="n1")]
    assert fold(state, ev.NodesReplaced((node("n2"),))) == lifted
    assert [node_info.node for node_info in state.candidates()] == [node("n2")]


NAMED = [
    pytest.param("gpu-a", {"gpu-a"}, id="by-its-real-name"),
    pytest.param("node1", {"gpu-a"}, id="by-the-label"),
    pytest.param("old1", {"gpu-b"}, id="by-the-older-label"),
    pytest.param("both", {"gpu-b"}, id="both-labels-agree"),
    pytest.param("gpu-b", {"gpu-b"}, id="a-real-name-before-another-nodes-alias"),
    pytest.param("twice", {"gpu-a", "gpu-c"}, id="an-alias-of-two-nodes"),
    pytest.param("nowhere", set(), id="unknown"),
]


@pytest.mark.contract("S2-6", "S2-25")
@pytest.mark.parametrize(("token", "found"), NAMED)
def test_mapped_node_is_found_by_name_or_label(token: str, found: set[str]) -> None:
    state = cluster(
        node("gpu-a", labels={"gpu-node-name": "node1", "gpu-node": "twice"}),
        node("gpu-b", labels={"gpu-node": "old1"}),
        node("gpu-c", labels={"gpu-node-name": "gpu-b", "gpu-node": "twice"}),
        node("gpu-b", labels={"gpu-node": "old1", "gpu-node-name": "both"}),
    )

    assert state.resolve(token) == found


def test_an_alias_follows_its_label_and_goes_with_its_node() -> None:
    state = cluster(node("gpu-a", labels={"gpu-node-name": "node1"}))
    state.upsert_node(node("gpu-a", labels={"gpu-node-name": "node2"}))
    assert not state.resolve("node1")
    assert state.resolve("node2") == {"gpu-a"}

    state.delete_node("gpu-a")
    assert state.resolve("node2") == set()
    assert state.resolve("gpu-a") == set()


def test_node_taking_over_an_alias_updates_the_former_node() -> None:
    """A pod whose map named the labelled node is unschedulable there."""
    state = cluster(node("g2", labels={"gpu-node-name": "g1"}))

    assert fold(state, ev.NodeUpdated(node("g1"))) == [
        ev.ClusterEvent(RequeueCause.NODE, node_name="g1"),
        ev.ClusterEvent(RequeueCause.NODE, node_name="g2"),
    ]
