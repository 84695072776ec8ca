"""Which room a gang reserves: that which is free for it, and that of pods that will end.

The nodes with the fewest pods to wait for come first. Pods of DaemonSets do not end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from scheduler.decide.gang.attempt import Attempt, find_only, view_beside
from scheduler.decide.gang.need import Need
from scheduler.decide.gang.plan import Planning
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang
from scheduler.state.node_info import NodeInfo

_STAYS: Final = "DaemonSet"


def room_for(
    cluster: Cluster, gang: Gang, waiting: Sequence[Pod], pipeline: Pipeline, work: Budget
) -> tuple[Placement, ...]:
    """Places for as many members as have to start together; none where the gang would not fit if
    all others ended.
    """
    need = Need.of(gang, waiting)
    if need is None:
        return ()
    if gang.topology is not None:
        return _in_a_domain(cluster, gang, waiting, need, pipeline, work)
    view = view_beside(cluster, waiting)
    found: list[Placement] = []
    nodes: list[NodeInfo] = []
    freed = 0
    while True:
        placed = {one.pod.uid: one.pod for one in found}
        rest = [pod for pod in waiting if pod.uid not in placed]
        left = need.without(placed.values())
        attempt = Attempt(cluster, view, rest, left, pipeline, work, find_only)
        attempt.place_needed(partly=True)
        found += attempt.placements
        if attempt.is_enough:
            return tuple(found)
        nodes = nodes or _by_pods_to_end(cluster, gang, waiting)
        more = nodes[freed : max(1, 2 * freed)]
        if not more or work.is_over:
            return ()
        freed += len(more)
        view.remove_all(
            (pod.uid, one.node.name) for one in more if one.node for pod in _that_end(one, gang)
        )


def _in_a_domain(
    cluster: Cluster,
    gang: Gang,
    waiting: Sequence[Pod],
    need: Need,
    pipeline: Pipeline,
    work: Budget,
) -> tuple[Placement, ...]:
    """The same for a gang that requests a level of the topology: the domain where it fits with the
    fewest nodes to wait for.
    """
    planning = Planning(cluster, gang, waiting, need, pipeline, work, find_only)
    nodes = _by_pods_to_end(cluster, gang, waiting)
    freed = 0
    while True:
        gone = [
            (pod, one.node.name)
            for one in nodes[:freed]
            if one.node
            for pod in _that_end(one, gang)
        ]
        found = planning.plan_needed(gone)
        if found is not None:
            return found.placements
        if freed >= len(nodes) or work.is_over:
            return ()
        freed = max(1, 2 * freed)


def _by_pods_to_end(cluster: Cluster, gang: Gang, waiting: Sequence[Pod]) -> list[NodeInfo]:
    """The nodes that offer what one of the members requests, with pods that will end."""
    wanted = {tuple(pod.gpu_requests.items()) for pod in waiting}
    found: list[tuple[int, str, NodeInfo]] = []
    for one in cluster.candidates():
        ending = sum(1 for _ in _that_end(one, gang))
        if one.node is not None and ending and any(_offers(one, asked) for asked in wanted):
            found.append((ending, one.node.name, one))
    return [one for *_, one in sorted(found, key=lambda each: each[:2])]


def _offers(node_info: NodeInfo, asked: Sequence[tuple[str, int]]) -> bool:
    return node_info.is_dynamic or all(node_info.most(what) >= count for what, count in asked)


def _that_end(node_info: NodeInfo, gang: Gang) -> Iterator[Pod]:
    """The pods that may end some time; those of the gang itself run on."""
    for pod, _ in node_info.pods.values():
        is_daemon = pod.owner is not None and pod.owner.kind == _STAYS
        if not is_daemon and pod.uid not in gang.members:
            yield pod
