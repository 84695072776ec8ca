"""Safety of decisions on random clusters: nothing is given twice, nothing is left unexplained."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.pipeline import Pipeline, first_rejection
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import default_pipeline
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.node_info import over_committed
from tests.builders import ALLOW_ALL_MAPS, GPU, as_bound, cluster, node
from tests.property.strategies import NODE_NAMES, crowds, nodes, open_nodes, several, strangers

PROFILES = st.sampled_from(
    [ALLOW_ALL_MAPS, default_pipeline(Settings(placement="spread", maps_allow="all"))]
)
node_lists = st.integers(1, 4).flatmap(
    lambda n: st.tuples(*(nodes(name) for name in NODE_NAMES[:n])).map(list)
)
stranger_lists = st.integers(0, 2).flatmap(
    lambda n: st.tuples(*(strangers(number) for number in range(n))).map(list)
)
#: Worlds are dear to draw; half of the profile's examples keep this within seconds.
FEWER = settings(max_examples=settings().max_examples // 2)


def run(
    state: Cluster, pods: list[Pod], pipeline: Pipeline, ends: list[int] | None = None
) -> list[Placement]:
    """Decide pod after pod; each placement is confirmed, or lost, or stays assumed."""
    placements = []
    for number, one in enumerate(pods):
        state.upsert_pod(one)
        decision = schedule_one(state, one, pipeline)
        if not isinstance(decision, Placement):
            continue
        placements.append(decision)
        given_to = Assumption(decision.node_name, decision.devices, decision.index)
        state.assume(one, given_to)
        how = ends[number % len(ends)] if ends else 0
        if how == 1:
            state.upsert_pod(as_bound(decision))
        elif how == 2:
            state.forget(one.uid)
        elif how == 3:
            state.delete_pod(one.uid)
    return placements


@FEWER
@given(node_lists, several(8), PROFILES, st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_no_device_is_held_by_two_unrelated_pods(
    offered: list[Node], pods: list[Pod], pipeline: Pipeline, ends: list[int]
) -> None:
    state = cluster(*offered)
    run(state, pods, pipeline, ends)

    assert {b.node.name: over_committed(b) for b in state.candidates() if b.node} == {
        one.name: {} for one in offered
    }


@FEWER
@given(
    st.tuples(open_nodes("n0"), open_nodes("n1")).map(list),
    crowds(),
    st.lists(st.sampled_from([0, 1, 1, 2]), min_size=1, max_size=8),
)
def test_contended_devices_are_never_taken_from_another_workload(
    offered: list[Node], pods: list[Pod], ends: list[int]
) -> None:
    """Checked without the product's own idea of sharing: by owner, or by text within a tenant."""
    state = cluster(*offered)
    run(state, pods, ALLOW_ALL_MAPS, ends)

    for node_info in state.candidates():
        takers: dict[int, set[object]] = {}
        for one, allocation in node_info.pods.values():
            group = (one.namespace, one.owner or one.map_text, one.map_text is not None)
            for number in allocation.numbers:
                takers.setdefault(number, set()).add(group if one.map_text else one.uid)
        assert all(len(groups) == 1 for groups in takers.values()), takers


@FEWER
@given(node_lists, several(8), PROFILES)
def test_own_placements_never_overcommit_a_node(
    offered: list[Node], pods: list[Pod], pipeline: Pipeline
) -> None:
    state = cluster(*offered)
    run(state, pods, pipeline)

    for node_info in state.candidates():
        assert node_info.node is not None
        assert len(node_info.pods) <= node_info.node.allocatable[well_known.PODS]
        assert all(
            node_info.free(resource) >= 0 for resource, used in node_info.used.items() if used
        )


@FEWER
@given(node_lists, stranger_lists, several(6), PROFILES)
def test_placements_pass_every_filter_beside_foreign_pods(
    offered: list[Node], others: list[Pod], pods: list[Pod], pipeline: Pipeline
) -> None:
    """Nodes may be over-committed from the start; the process must not stumble over it."""
    state = cluster(*offered, *others)
    for one in pods:
        decision = schedule_one(state, one, pipeline)
        if isinstance(decision, Placement):
            node_info = state.at(decision.node_name)
            assert node_info is not None
            assert node_info.node is not None
            assert first_rejection(one, node_info, pipeline.points(one).filters) == ()
            theirs = sum(
                x.requests.get(GPU, 0) for x in others if x.node_name == node_info.node.name
            )
            assert not (decision.devices.numbers and theirs and node_info.node.gpu_count), (
                "which of the node's GPUs they hold is not known, so none is given by number"
            )


@FEWER
@given(node_lists, stranger_lists, several(6), PROFILES, st.permutations(range(4)))
def test_decisions_do_not_depend_on_event_order(
    offered: list[Node], others: list[Pod], pods: list[Pod], pipeline: Pipeline, order: list[int]
) -> None:
    shuffled = [offered[place] for place in order if place < len(offered)]
    first, second = cluster(*offered, *others), cluster(*reversed(others), *shuffled)

    assert run(first, pods, pipeline) == run(second, pods, pipeline)
    for one in pods:
        again = schedule_one(first, one, pipeline), schedule_one(second, one, pipeline)
        assert again[0] == again[1]
        if isinstance(again[0], Rejection) and isinstance(again[1], Rejection):
            assert sentence(again[0].diagnosis) == sentence(again[1].diagnosis)


@FEWER
@given(node_lists, stranger_lists, several(3), PROFILES)
def test_extra_empty_node_never_unplaces_a_pod(
    offered: list[Node], others: list[Pod], pods: list[Pod], pipeline: Pipeline
) -> None:
    state = cluster(*offered, *others)
    packed = [one for one in pods if one.map_text is None]
    before = [schedule_one(state, one, pipeline) for one in packed]
    state.upsert_node(node("one-more", gpus=4, with_gpu_indexes=True))

    for one, decision in zip(packed, before, strict=True):
        if isinstance(decision, Placement):
            assert isinstance(schedule_one(state, one, pipeline), Placement)


@FEWER
@given(node_lists, stranger_lists, several(3), PROFILES)
def test_refusal_names_every_node_once_or_one_pod_level_reason(
    offered: list[Node], others: list[Pod], pods: list[Pod], pipeline: Pipeline
) -> None:
    state = cluster(*offered, *others)
    for one in pods:
        decision = schedule_one(state, one, pipeline)
        if isinstance(decision, Placement):
            continue
        diagnosis = decision.diagnosis
        assert diagnosis.total == len(offered)
        assert diagnosis.causes()
        if diagnosis.general is None:
            assert set(diagnosis.nodes) == {node_.name for node_ in offered}
            assert all(diagnosis.nodes.values())
        text = sentence(diagnosis)
        assert text.startswith(f"0/{len(offered)} nodes are available: ")
        assert text.isprintable()


@FEWER
@given(node_lists, several(6), PROFILES)
def test_deciding_changes_nothing(offered: list[Node], pods: list[Pod], pipeline: Pipeline) -> None:
    state = cluster(*offered)
    for one in pods:
        schedule_one(state, one, pipeline)

    for node_info in state.candidates():
        assert (node_info.pods, {k: v for k, v in node_info.used.items() if v}) == ({}, {})
