"""A snapshot that went through bytes decides as the cluster it was taken of, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide.explain import explain
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.score_breakdown import rank
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.settings import Settings
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import NodeInfo
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, restore, take
from tests.builders import pod
from tests.property.strategies import NODE_NAMES, several
from tests.property.test_cluster import History, events, picture

#: Some preempted for a node, which every decision respects.
preemptors = st.builds(
    lambda number, node, priority: ev.PodUpdated(
        pod(f"w-{number}", uid=f"u{number}", gpus=1, nominated=node, priority=priority)
    ),
    st.integers(0, 5),
    st.sampled_from(NODE_NAMES),
    st.integers(0, 1),
)
#: Some nodes rejected pods too often, and are closed for every pod or for GPU pods.
rests = st.tuples(
    st.just("rest"),
    st.sampled_from(NODE_NAMES),
    st.sampled_from([frozenset(), frozenset([""]), frozenset(["nvidia.com/gpu", "cpu"])]),
)
histories = st.lists(events | events | events | preemptors | rests, max_size=25)
profiles = st.builds(
    lambda placement, allow, most, victims: default_pipeline(
        Settings(placement=placement, maps_allow=allow, decision_steps_max=most, preemption=victims)
    ),
    st.sampled_from(["pack", "spread"]),
    st.sampled_from(["all", "labelled"]),
    # With few steps, decisions end as TooComplex before or after a node was found.
    st.sampled_from([200_000, 200_000, 2, 4, 8, 16]),
    st.sampled_from(["off", "own", "all"]),
)


def lived(history: Iterable[Any], newcomers: Iterable[Pod]) -> tuple[Cluster, SchedulingQueue]:
    past, queue = History(), SchedulingQueue()
    for event in history:
        match event:
            case ("rest", name, scopes):
                past.state.avoid(name, scopes)
            case _:
                past.happens(event)
    for one in newcomers:
        past.state.track_label_keys(one)
        queue.add(one, 1.0)
    return past.state, queue


def through_bytes(cluster: Cluster, queue: SchedulingQueue) -> ClusterSnapshot:
    state = take(cluster, queue, Reservations(), 7, 2.5)
    return msgspec.json.decode(msgspec.json.encode(state), type=ClusterSnapshot)


def verdict(cluster: Cluster, one: Pod, pipeline: Pipeline) -> bytes:
    decision = schedule_one(cluster, one, pipeline)
    ranking = rank(cluster, decision, pipeline) if isinstance(decision, Placement) else None
    return msgspec.json.encode((explain(decision), ranking))


@given(histories, several(4), profiles)
def test_waiting_pods_replay_to_identical_bytes(
    history: list[Any], newcomers: list[Pod], pipeline: Pipeline
) -> None:
    cluster, queue = lived(history, newcomers)
    state = through_bytes(cluster, queue)
    replayed = restore(state)

    assert [one.pod for one in state.queue] == newcomers
    for one in state.queue:
        assert verdict(replayed, one.pod, pipeline) == verdict(cluster, one.pod, pipeline)


@given(histories)
def test_restored_state_answers_every_query(history: list[Any]) -> None:
    cluster, queue = lived(history, [])
    again = restore(through_bytes(cluster, queue))

    assert picture(again) == picture(cluster)
    assert again.nominated == cluster.nominated
    assert {name: node_info.avoided for name, node_info in again.nodes.node_info.items()} == {
        name: node_info.avoided for name, node_info in cluster.nodes.node_info.items()
    }
    assert again.assumed == cluster.assumed


@given(histories, several(3))
def test_a_snapshot_of_a_restored_state_is_the_same_snapshot(
    history: list[Any], newcomers: list[Pod]
) -> None:
    cluster, queue = lived(history, newcomers)
    state = through_bytes(cluster, queue)

    assert through_bytes(restore(state), queue) == state


@given(histories, several(2), profiles)
def test_deciding_for_a_snapshot_changes_nothing(
    history: list[Any], newcomers: list[Pod], pipeline: Pipeline
) -> None:
    """Or asking why would be felt by others."""
    cluster, queue = lived(history, newcomers)
    before = through_bytes(cluster, queue)
    for one in newcomers:
        verdict(cluster, one, pipeline)

    assert through_bytes(cluster, queue) == before


def test_every_state_field_is_in_the_snapshot_or_derived() -> None:
    """An addition to the state is listed here; if decisions see it, ``restore`` must restore it."""
    written = {"scheduler_name", "pods", "assumed", "namespaces", "nodes", "index", "quotas"}
    written |= {"preemptions", "volumes", "dra", "gangs", "teams"}
    follow = {"nominated", "nominations", "_map_indexes", "filter_results", "groups", "topology"}
    follow |= {"at"}
    never_changes = {"changed", "_releases"}

    assert set(vars(Cluster())) == written | follow | never_changes
    node_info = {"node", "avoided", "pods", "_instances", "gpus_in_backoff", "is_settled"}
    node_info |= {"_left", "_usage", "_gpus", "is_dynamic", "ports", "used", "unread", "claims"}
    node_info |= {"with_volumes", "score_extra", "dra", "mapped_past_plugin"}
    of_copies = {"_placed"}
    assert set(NodeInfo.__slots__) <= node_info | of_copies
