"""The order of a gang's members: in the plan the largest first, on the nodes by rank.

The rank of a member is its index in its workload. Equal members get their nodes in the order of
the nodes' names, so that neighbours in rank are neighbours in the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.limits import MAP_INDEX_MAX
from scheduler.model.pods.pod import Pod
from scheduler.state.gangs.gang import role_of

#: Where a node is: the values of its domains, far first.
Place = tuple[tuple[bool, str], ...]
_NO_RANK: Final = MAP_INDEX_MAX + 1


def rank_of(pod: Pod) -> tuple[int, str]:
    """The index of a member in its workload, if it has one, then its name."""
    index = pod.index()
    return (index if isinstance(index, int) else _NO_RANK, pod.name)


def largest_first(pods: Iterable[Pod]) -> list[Pod]:
    """The members in the order of the plan: those first for which room was made, or is held."""

    def order(pod: Pod) -> tuple[object, ...]:
        gpus = sum(pod.gpu_requests.values()) + len(pod.resource_claims)
        return (not pod.nominated_node, -gpus, -pod.requests.get(well_known.CPU, 0), rank_of(pod))

    return sorted(pods, key=order)


def required_first(pods: Sequence[Pod], needs: Mapping[str, int]) -> list[Pod]:
    """As many members of each role as are needed, then the others, each in the same order."""
    left, required, others = dict(needs), list[Pod](), list[Pod]()
    for pod in pods:
        role = role_of(pod)
        (required if left.get(role, 0) > 0 else others).append(pod)
        left[role] = left.get(role, 0) - 1
    return required + others


def class_of(view: View, pod: Pod, pipeline: Pipeline) -> Hashable | None:
    """What makes members interchangeable; None for a member that is like no other."""
    if pod.map_text is not None or pod.volumes or pod.resource_claims or pod.term_count:
        return None
    return (pipeline.equivalence_class(pod), pod.priority, view.topology.terms_key(pod))


def nowhere(_node_name: str) -> Place:
    """The place of every node where the topology does not matter."""
    return ()


def in_rank_order(
    view: View,
    placements: Sequence[Placement],
    pipeline: Pipeline,
    place_of: Callable[[str], Place] = nowhere,
) -> tuple[Placement, ...]:
    """The same placements with equal members handed out by rank, in the order of ``place_of``, then
    of the nodes' names.
    """
    equal: dict[Hashable, list[Placement]] = {}
    for one in placements:
        kind = class_of(view, one.pod, pipeline)
        equal.setdefault(one.pod.uid if kind is None else kind, []).append(one)
    found: list[Placement] = []
    for alike in equal.values():
        by_node = sorted(alike, key=lambda one: (place_of(one.node_name), one.node_name))
        pods = sorted((one.pod for one in alike), key=rank_of)
        found += [
            msgspec.structs.replace(one, pod=pod) for one, pod in zip(by_node, pods, strict=True)
        ]
    return tuple(found)
