"""The shares of GPUs that a device plugin, dynamic MIG or a map gives to the pods of a node.

whole GPUs, by count or by index    a pod holds 1 for each; pods that share one hold equal parts
time-sliced GPUs                    a pod holds 1/replicas for each share
MIG instances                       the larger of compute share and memory share
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from scheduler.model import well_known
from scheduler.model.cost.share import ONE, ZERO, slice_share
from scheduler.model.gpu.plugin_resources import SHARED as RENAMED
from scheduler.model.mig.gpu_models import GPU_MODELS
from scheduler.model.mig.node_geometry import least_gpus, memory_mib, replicas
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.capacity.gpu_pools import CutGpu, Entry, Pools
from scheduler.state.capacity.node_devices import is_slice, node_problem
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus
from scheduler.state.node_info import NodeInfo
from scheduler.state.pod_allocation import PodAllocation


def plugin_shares(node_info: NodeInfo, pools: Pools) -> None:
    """Count the GPUs of a device plugin, of dynamic MIG, and those that only maps name."""
    node = node_info.node
    assert node is not None, "a node that only its pods name has no GPUs"
    gpus = node_info.gpus
    if gpus is not None:
        _dynamic(node_info, node, gpus, pools)
        return
    by_resource = _by_resource(node_info)
    held = node_info.usage.holders
    # Claims give the GPUs of a DRA driver, also those of a map.
    is_indexed = (
        node.is_index_assigned and node_info.dra_gpus is None and bool(held or node.indexes)
    )
    if is_indexed:
        _indexed(node_info, node, pools)
    slices: list[str] = []
    for resource in dict.fromkeys((*node.devices, *by_resource)):
        if is_slice(unit_of(node, resource)):
            slices.append(resource)
        elif not is_indexed or resource != well_known.GPU:
            _whole(node_info, node, resource, by_resource.get(resource, ()), pools)
    if slices:
        _static(node_info, node, slices, by_resource, pools)


def unit_of(node: Node, resource: str) -> str:
    """The unit of a resource of the plugin, without the suffix of renamed shares."""
    return node.unit(resource.removesuffix(RENAMED))


def _by_resource(node_info: NodeInfo) -> dict[str, list[Entry]]:
    """The pods by the resource that they hold; a map without a request holds whole GPUs."""
    node = node_info.node
    assert node is not None
    found: dict[str, list[Entry]] = {}
    shares: dict[tuple[str, int], Fraction] = {}
    is_counted = not node.is_index_assigned
    for pod, allocation in node_info.pods.values():
        requests = pod.gpu_requests
        for key in requests.items():
            share = shares.get(key)
            if share is None:
                resource, count = key
                is_of_claim = node_info.is_served_by_dra(resource)
                share = ZERO if is_of_claim else unit_share(node, resource) * count
                shares[key] = share
            if share:
                found.setdefault(key[0], []).append(_entry(pod, share))
        if is_counted and not requests and allocation.has_gpus:
            share = _by_index(node_info, allocation)
            if share:
                found.setdefault(well_known.GPU, []).append(_entry(pod, share))
    return found


def unit_share(node: Node, resource: str) -> Fraction:
    """The share of a GPU that one unit of a resource is on a node."""
    unit = unit_of(node, resource)
    parts = replicas(node.labels, resource.removesuffix(RENAMED))
    if not is_slice(unit):
        return ONE if parts == 1 else Fraction(1, parts)
    gpu_model = GPU_MODELS.get(node.geometry.gpu_model)
    return slice_share(gpu_model, unit, memory_mib(node.labels)) / parts


def _entry(pod: Pod, share: Fraction) -> Entry:
    return Entry(pod.namespace, pod, share, pod.is_degraded)


def _by_index(node_info: NodeInfo, allocation: PodAllocation) -> Fraction:
    """GPUs by index, each in equal parts of its holders, and those of unknown index."""
    holders = node_info.usage.holders
    share = Fraction(allocation.unknown)
    for number in allocation.numbers:
        count = len(holders[number])
        share += ONE if count == 1 else Fraction(1, count)
    return share


# --- whole GPUs ----------------------------------------------------------------------------------


def _whole(
    node_info: NodeInfo, node: Node, resource: str, entries: Sequence[Entry], pools: Pools
) -> None:
    """GPUs that are counted, as a whole or in shares."""
    parts = replicas(node.labels, resource.removesuffix(RENAMED))
    usable = node.allocatable.get(resource, 0)
    total = max(usable, node.capacity.get(resource, 0))
    left = pools.add(-(-total // parts), entries)
    free = 0 if node_problem(node) else max(0, node_info.free(resource))
    failed = Fraction(max(0, total - usable), parts)
    pools.unavailable(pools.rest(left, free=Fraction(free, parts), failed=failed))


def _indexed(node_info: NodeInfo, node: Node, pools: Pools) -> None:
    """GPUs that the scheduler gives by index; without a count there are only those held."""
    usage = node_info.usage
    held = frozenset(usage.holders)
    there = len(held.union(node.indexes, node.failed_gpus))
    entries = [
        _entry(pod, _by_index(node_info, allocation))
        for pod, allocation in node_info.pods.values()
        if allocation.numbers or allocation.unknown
    ]
    left = pools.add(max(there, len(held) + usage.unknown), entries)
    free = 0 if node_problem(node) else max(0, len(node_info.free_indexes()) - usage.unknown)
    failed = len(node.failed_gpus - held)
    pools.unavailable(pools.rest(left, free=Fraction(free), failed=Fraction(failed)))


# --- MIG -----------------------------------------------------------------------------------------


def _static(
    node_info: NodeInfo,
    node: Node,
    resources: Iterable[str],
    by_resource: dict[str, list[Entry]],
    pools: Pools,
) -> None:
    """Instances that exist already; what no instance covers is stranded."""
    entries: list[Entry] = []
    free = failed = every = ZERO
    for resource in resources:
        share = unit_share(node, resource)
        usable = node.allocatable.get(resource, 0)
        total = max(usable, node.capacity.get(resource, 0))
        every += total * share
        free += max(0, node_info.free(resource)) * share
        failed += max(0, total - usable) * share
        entries += by_resource.get(resource, ())
    left = pools.add(_mig_gpus(node) or -(-every.numerator // every.denominator), entries)
    problem = node_problem(node)
    rest = pools.rest(left, free=ZERO if problem else free, failed=failed)
    if problem:
        pools.unavailable(rest)
    else:
        pools.stranded(rest)


def _mig_gpus(node: Node) -> int:
    """The GPUs with instances: by the labels where whole GPUs are counted too, else by the
    instances.
    """
    geometry = node.geometry
    least = geometry.mig_gpu_count
    if geometry.single:
        gpu_model = GPU_MODELS.get(geometry.gpu_model)
        return least_gpus(gpu_model, geometry.instances) if gpu_model is not None else 0
    if geometry.total_gpus is None or geometry.gpus:
        return least
    whole = -(-(node.offered.whole or 0) // replicas(node.labels, well_known.GPU))
    return max(least, geometry.total_gpus - whole)


def _dynamic(node_info: NodeInfo, node: Node, gpus: DynamicGpus, pools: Pools) -> None:
    """GPUs whose instances are created on request: one by one, if every place is known."""
    count = len(gpus.held)
    by_gpu: list[list[Entry]] = [[] for _ in range(count)]
    for pod, allocation in node_info.pods.values():
        if not _place(node_info, gpus, pod, allocation, by_gpu):
            _unplaced(node_info, node, gpus, pools)
            return
    problem = node_problem(node)
    for index, (layout, entries) in enumerate(zip(gpus.held, by_gpu, strict=True)):
        left = pools.add(1, entries)
        if not left:
            continue
        if index in node.failed_gpus:
            pools.rest(left, failed=left)
        elif problem or layout == BLOCKED:
            pools.unavailable(left)
        elif not layout:
            pools.rest(left, free=left)
        else:
            pools.cut.append(CutGpu(gpus.gpu_model, layout, left))


def _place(
    node_info: NodeInfo,
    gpus: DynamicGpus,
    pod: Pod,
    allocation: PodAllocation,
    by_gpu: list[list[Entry]],
) -> bool:
    """Add what a pod holds to its GPUs; false if a place is unknown."""
    requested = sum(n for r, n in pod.gpu_requests.items() if well_known.is_mig(r))
    placements = allocation.mig_placements
    numbers = allocation.numbers
    if allocation.unknown or requested != len(placements):
        return False
    if any(at >= len(by_gpu) for at in (*numbers, *(one.gpu for one in placements))):
        return False
    for one in placements:
        by_gpu[one.gpu].append(_entry(pod, slice_share(gpus.gpu_model, one.profile)))
    for number in numbers:
        holders = len(node_info.usage.holders[number])
        by_gpu[number].append(_entry(pod, Fraction(1, holders)))
    return True


def _unplaced(node_info: NodeInfo, node: Node, gpus: DynamicGpus, pools: Pools) -> None:
    """All GPUs of the node together; nothing of them is given to a pod meanwhile."""
    entries = []
    for pod, allocation in node_info.pods.values():
        share = _by_index(node_info, allocation)
        for resource, count in pod.gpu_requests.items():
            if well_known.is_mig(resource):
                share += slice_share(gpus.gpu_model, unit_of(node, resource)) * count
        if share:
            entries.append(_entry(pod, share))
    left = pools.add(len(gpus.held), entries)
    pools.unavailable(pools.rest(left, failed=Fraction(len(node.failed_gpus))))
