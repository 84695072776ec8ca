"""The best dynamic MIG node, found by layout (``state/index/mig_layout_index``) without a scan.

For one instance the existing layouts are tried in the order of the added layout cost; for several
instances in one pod, nodes are grouped by signature. A property test compares with a full scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from scheduler.framework.budget import Budget
from scheduler.model import well_known
from scheduler.model.mig import layout
from scheduler.model.mig.layout_cost import best_start
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.index.capacity_bucket import LEAST
from scheduler.state.index.mig_layout_index import IdleKey, Key, MigLayoutIndex, NodeLayouts
from scheduler.state.node_info import NodeInfo

#: The node with this name, or None if the pod does not fit.
Fitting = Callable[[str], NodeInfo | None]


def best(
    layout_indexes: Iterable[MigLayoutIndex],
    pod: Pod,
    fitting: Fitting,
    work: Budget,
    *,
    spread: bool,
) -> list[NodeInfo]:
    """The best node of each set of shelves, as far as ``work`` allows."""
    profiles = instance_search.wanted(pod)
    if not profiles:
        return []
    # A node may have less CPU than is requested on it; a pod without a CPU request still fits
    # there.
    cpu = pod.requests.get(well_known.CPU, 0) or LEAST
    return [
        found
        for buckets in layout_indexes
        for found in _best_of(buckets, profiles, cpu, fitting, work, spread=spread)
    ]


def _best_of(
    buckets: MigLayoutIndex,
    profiles: tuple[str, ...],
    cpu: int,
    fitting: Fitting,
    work: Budget,
    *,
    spread: bool,
) -> list[NodeInfo]:
    """The first node of each kind with the lowest cost among the nodes that fit."""
    found: list[NodeInfo] = []
    least: float | None = None
    for cost_delta, keys in _by_cost(buckets, profiles, work):
        if least is not None and cost_delta > least:
            break
        for key in keys:
            bucket = buckets.bucket(key)
            slots = bucket.fitting(1, cpu, spread=spread) if bucket is not None else ()
            passed = next((at for _, (_, name) in slots if (at := fitting(name)) is not None), None)
            if passed is not None:
                found.append(passed)
                least = cost_delta
                break
    return found


def _by_cost(
    buckets: MigLayoutIndex, profiles: tuple[str, ...], work: Budget
) -> Iterator[tuple[float, tuple[Key, ...]]]:
    """The costs in ascending order with their shelves; of equal keys the first one is preferred."""
    if len(profiles) > 1:
        yield from _by_node_layouts(buckets.node_layouts, profiles, work)
        return
    profile = profiles[0]
    for cost_delta, layout_key in buckets.ranked(profile):
        found = best_start(layout.GPU_MODELS[layout_key.gpu_model], layout_key.layout, profile)
        assert found is not None, "a layout without room is ranked"
        yield cost_delta, (IdleKey(layout_key, (profile, found[0])), layout_key)


def _by_node_layouts(
    known: Iterable[NodeLayouts], profiles: tuple[str, ...], work: Budget
) -> Iterator[tuple[float, tuple[Key, ...]]]:
    found: list[tuple[float, int, NodeLayouts]] = []
    for number, one in enumerate(known):
        result = instance_search.search_jointly(
            layout.GPU_MODELS[one.gpu_model], one.layouts, profiles
        )
        if not work.spend_once((one.gpu_model, one.layouts), result.steps):
            break
        if result.found is not None:
            found.append((result.cost_delta, number, one))
    return (
        (cost_delta, (one,)) for cost_delta, _, one in sorted(found, key=lambda result: result[:2])
    )
