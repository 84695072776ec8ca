"""The best dynamic MIG node, found by layout (``state/index/mig_layout_index``) without a scan.

For one instance the existing layouts are tried in the order of the added layout cost; for several
instances in one pod, nodes are grouped by signature. A property test compares with a full scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from scheduler.framework.budget import Budget
from scheduler.framework.pipeline import Score
from scheduler.model import well_known
from scheduler.model.mig import layout
from scheduler.model.mig.layout_cost import best_start
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.index.capacity_bucket import LEAST
from scheduler.state.index.mig_layout_index import IdleKey, Key, MigLayoutIndex, NodeLayouts
from scheduler.state.node_info import NodeInfo

#: The score of a node, or None if the pod does not fit.
Judge = Callable[[str], tuple[Score, NodeInfo] | None]


def best(
    shelf_sets: Iterable[MigLayoutIndex], pod: Pod, judge: Judge, work: Budget, *, spread: bool
) -> list[tuple[Score, NodeInfo]]:
    """The best node of each set of shelves, as far as ``work`` allows."""
    profiles = instance_search.wanted(pod)
    if not profiles:
        return []
    # A node may have less CPU than is requested on it; a pod without a CPU request still fits
    # there.
    cpu = pod.requests.get(well_known.CPU, 0) or LEAST
    return [
        found
        for shelves in shelf_sets
        for found in _best_of(shelves, profiles, cpu, judge, work, spread=spread)
    ]


def _best_of(
    shelves: MigLayoutIndex,
    profiles: tuple[str, ...],
    cpu: int,
    judge: Judge,
    work: Budget,
    *,
    spread: bool,
) -> list[tuple[Score, NodeInfo]]:
    """The first node of each kind with the lowest cost among the nodes that fit."""
    found: list[tuple[Score, NodeInfo]] = []
    least: float | None = None
    for rise, keys in _ways(shelves, profiles, work):
        if least is not None and rise > least:
            break
        for key in keys:
            shelf = shelves.shelf(key)
            slots = shelf.fitting(1, cpu, spread=spread) if shelf is not None else ()
            passed = next((mark for _, (_, name) in slots if (mark := judge(name))), None)
            if passed is not None:
                found.append(passed)
                least = rise
                break
    return found


def _ways(
    shelves: MigLayoutIndex, profiles: tuple[str, ...], work: Budget
) -> Iterator[tuple[float, tuple[Key, ...]]]:
    """The costs in ascending order with their shelves; of equal keys the first one is preferred."""
    if len(profiles) > 1:
        yield from _signatures(shelves.signatures, profiles, work)
        return
    profile = profiles[0]
    for rise, cut in shelves.ranked(profile):
        found = best_start(layout.BOARDS[cut.board], cut.layout, profile)
        assert found is not None, "a layout without room is ranked"
        yield rise, (IdleKey(cut, (profile, found[0])), cut)


def _signatures(
    known: Iterable[NodeLayouts], profiles: tuple[str, ...], work: Budget
) -> Iterator[tuple[float, tuple[Key, ...]]]:
    found: list[tuple[float, int, NodeLayouts]] = []
    for number, one in enumerate(known):
        way = instance_search.searched(layout.BOARDS[one.board], one.layouts, profiles)
        if not work.once((one.board, one.layouts), way.steps):
            break
        if way.found is not None:
            found.append((way.rise, number, one))
    return ((rise, (one,)) for rise, _, one in sorted(found, key=lambda way: way[:2]))
