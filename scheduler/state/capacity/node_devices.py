"""The GPUs and slices of one node: how many there are, which are held and by whom, which are free.

The numbers are those of the decisions (``NodeInfo``), so a free device is one that a pod would get
now, as far as devices are concerned. Units are ``gpu``, ``gpu.shared``, a MIG profile, or the name
of a DRA driver. Slices of one GPU exclude each other where instances are created on request, so
their free numbers are alternatives and not a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.dra.device import DeviceId
from scheduler.model.integer_text import whole
from scheduler.model.mig.node_geometry import memory_mib, replicas
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.dra.published_devices import published_devices
from scheduler.state.dra.store import DraStore
from scheduler.state.mig.dynamic_gpus import BLOCKED, DynamicGpus
from scheduler.state.node_info import NodeInfo
from scheduler.state.pod_allocation import PodAllocation

GPU: Final = "gpu"
SHARED: Final = "gpu.shared"
#: The attribute with the name of the board, of NVIDIA's DRA driver.
PRODUCT_ATTRIBUTE: Final = well_known.DRA_DRIVER + "/productName"
#: Larger than of any profile; the name may come from any driver.
SLICES_MAX: Final = 99
MEMORY_GB_MAX: Final = 9999
#: GPUs that are drawn one by one.
DRAWN_MAX: Final = 16

Amounts = dict[str, int]


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Encoded without empty fields."""


class DeviceAmount(msgspec.Struct, frozen=True):
    """Devices of one unit. ``failed`` devices exist and are given to no pod."""

    total: int = 0
    held: int = 0
    free: int = 0
    failed: int = 0

    def plus(self, other: DeviceAmount) -> DeviceAmount:
        """The sum."""
        return DeviceAmount(
            self.total + other.total,
            self.held + other.held,
            self.free + other.free,
            self.failed + other.failed,
        )


class Holder(_Shape, frozen=True, kw_only=True):
    """A pod and its devices, by unit. ``indexes`` are the GPUs that are known by number."""

    namespace: str
    pod: str
    devices: Amounts
    indexes: tuple[int, ...] = ()


class NodeDevices(_Shape, frozen=True, kw_only=True):
    """The devices of one node.

    ``product`` is the name of the board and ``memory_mib`` the memory of one, if known. ``gpus``
    draws the GPUs: ``#`` held, ``+`` held in part, ``.`` free, ``F`` failed; by index where
    ``is_numbered``. ``problem`` says why no pod gets a device of the node, whatever is free.
    """

    node: str
    product: str = ""
    memory_mib: int = 0
    devices: dict[str, DeviceAmount] = {}
    gpus: str = ""
    is_numbered: bool = False
    problem: str = ""
    taints: tuple[str, ...] = ()
    holders: tuple[Holder, ...] = ()
    by_namespace: dict[str, Amounts] = {}
    degraded: dict[str, Amounts] = {}

    @property
    def largest_free(self) -> tuple[str, int]:
        """The largest block that one pod could get: whole GPUs, else the largest slice."""
        free = {unit: amount.free for unit, amount in self.devices.items() if amount.free > 0}
        if GPU in free:
            return GPU, free[GPU]
        if slices := [unit for unit in free if is_slice(unit)]:
            return max(slices, key=slice_size), 1
        return max(free.items(), key=lambda item: item[1], default=("", 0))


def is_slice(unit: str) -> bool:
    """Whether a unit is a MIG profile.

    >>> is_slice("1g.10gb"), is_slice("gpu"), is_slice("gpu.example.com")
    (True, False, False)
    """
    return unit[:1].isdigit()


def slice_size(unit: str) -> tuple[int, int]:
    """The order of profiles: compute slices, then the memory.

    >>> sorted(["3g.40gb", "1g.20gb", "1g.10gb.me"], key=slice_size)
    ['1g.10gb.me', '1g.20gb', '3g.40gb']
    """
    head, _, rest = unit.partition(".")
    number = rest.partition("gb")[0]
    compute = head.rstrip("cg")
    return whole(compute, SLICES_MAX) or 0, whole(number, MEMORY_GB_MAX) or 0


def devices_of(node_info: NodeInfo, store: DraStore) -> NodeDevices:
    """The devices of a node that exists."""
    node = node_info.node
    assert node is not None, "a node that only its pods name has no devices"
    amounts, gpus = _of_plugin(node_info, node)
    published, units, product = _of_drivers(store, node)
    for unit, amount in published.items():
        amounts[unit] = amounts.get(unit, DeviceAmount()).plus(amount)
    held = _holders(node_info, store, units)
    problem = node_problem(node)
    if problem:
        amounts = {
            unit: DeviceAmount(one.total, one.held, 0, one.failed) for unit, one in amounts.items()
        }
    return NodeDevices(
        node=node.name,
        product=node.labels.get(well_known.GPU_PRODUCT) or product,
        memory_mib=memory_mib(node.labels) or 0,
        devices=amounts,
        gpus=gpus or _drawn(amounts.get(GPU, DeviceAmount())),
        is_numbered=bool(gpus),
        problem=problem,
        taints=tuple(
            f"{taint.key}={taint.value}" if taint.value else taint.key
            for taint in node.taints
            if taint.is_hard and not taint.is_of_condition
        ),
        holders=tuple(held.holders),
        by_namespace=held.by_namespace,
        degraded=held.degraded,
    )


def node_problem(node: Node) -> str:
    """Why no pod gets a device of the node; empty if pods may."""
    if node.unread:
        return node.unread
    if node.unschedulable:
        return "cordoned"
    conditions = (one.key for one in node.taints if one.is_hard and one.is_of_condition)
    return next(conditions, "") or node.gpu_problem or node.mig_hold


# --- device plugins --------------------------------------------------------------------------


def _of_plugin(node_info: NodeInfo, node: Node) -> tuple[dict[str, DeviceAmount], str]:
    """The amounts of a device plugin or of dynamic MIG, and the drawing of numbered GPUs."""
    gpus = node_info.gpus
    if gpus is not None:
        return _of_dynamic_mig(node_info, gpus)
    amounts: dict[str, DeviceAmount] = {}
    for resource in node.devices:
        total = max(node.allocatable.get(resource, 0), node.capacity.get(resource, 0))
        usable, left = node.allocatable.get(resource, 0), node_info.free(resource)
        one = DeviceAmount(total, max(0, usable - left), max(0, left), max(0, total - usable))
        unit = unit_on(node, resource)
        amounts[unit] = amounts.get(unit, DeviceAmount()).plus(one)
    held = frozenset(node_info.usage.holders)
    if not node.is_index_assigned or not (held or node.indexes):
        return amounts, ""
    return _of_indexes(node_info, node, amounts, held)


def _of_indexes(
    node_info: NodeInfo, node: Node, amounts: dict[str, DeviceAmount], held: frozenset[int]
) -> tuple[dict[str, DeviceAmount], str]:
    """GPUs that the scheduler gives by index; without a count there are only those that are
    held. No more are free than the plugin advertises, since pods request them from it.
    """
    there = gpu_indexes(node_info)
    unknown = node_info.usage.unknown
    free = max(0, len(node_info.free_indexes()) - unknown)
    if GPU in amounts:
        free = min(free, amounts[GPU].free)
    in_use = len(held) + unknown
    amounts[GPU] = DeviceAmount(max(len(there), in_use), in_use, free, len(node.failed_gpus - held))
    if len(there) > DRAWN_MAX or unknown:
        return amounts, ""
    signs = ("#" if i in held else "F" if i in node.failed_gpus else "." for i in there)
    return amounts, "".join(signs)


def gpu_indexes(node_info: NodeInfo) -> list[int]:
    """The GPUs of an index-assigned node: those that are usable, held or failed."""
    node = node_info.node
    assert node is not None, "a node that only its pods name has no devices"
    return sorted({*node.indexes, *node_info.usage.holders, *node.failed_gpus})


def _of_dynamic_mig(node_info: NodeInfo, gpus: DynamicGpus) -> tuple[dict[str, DeviceAmount], str]:
    whole = {number for _, one in node_info.pods.values() for number in one.numbers}
    held: Amounts = {}
    signs: list[str] = []
    for index, layout in enumerate(gpus.held):
        if layout == BLOCKED:
            signs.append("#" if index in whole else "F")
            continue
        signs.append("+" if layout else ".")
        for name, _ in layout:
            held[name] = held.get(name, 0) + 1
    amounts: dict[str, DeviceAmount] = {}
    for profile in gpus.gpu_model.plain:
        name = well_known.mig_profile(profile.resource)
        mine, free = held.get(name, 0), gpus.left.get(profile.resource, 0)
        amounts[name] = DeviceAmount(mine + free, mine, free)
    for name in held.keys() - amounts.keys():
        amounts[name] = DeviceAmount(held[name], held[name])
    return amounts, "".join(signs) if len(signs) <= DRAWN_MAX else ""


def unit_on(node: Node, resource: str) -> str:
    """The unit of a plugin's resource on a node; a GPU that is shared in time is ``gpu.shared``."""
    unit = node.unit(resource)
    return SHARED if unit == GPU and replicas(node.labels, resource) > 1 else unit


def _drawn(gpus: DeviceAmount) -> str:
    """GPUs that are only counted; empty if they are too many to be drawn."""
    if not 0 < gpus.total <= DRAWN_MAX:
        return ""
    held, free = min(gpus.held, gpus.total), min(gpus.free, gpus.total)
    rest = max(0, gpus.total - held - free - gpus.failed)
    return ("#" * held + "." * free + "+" * rest + "F" * gpus.failed)[: gpus.total]


# --- DRA drivers -------------------------------------------------------------------------------


def _of_drivers(
    store: DraStore, node: Node
) -> tuple[dict[str, DeviceAmount], dict[DeviceId, str], str]:
    """The amounts of DRA drivers, the unit of each device, and the name of the board.

    Partitions that are neither held nor free overlap with one that is held, and do not count.
    """
    amounts: dict[str, DeviceAmount] = {}
    units: dict[DeviceId, str] = {}
    product = ""
    for one in published_devices(store, node):
        unit = units[one.id] = one.unit
        if not product and unit == GPU:
            found = one.device.attribute(PRODUCT_ATTRIBUTE)
            product = found if isinstance(found, str) else ""
        failed = one.is_tainted and not one.is_held
        if is_slice(unit) and not (one.is_held or one.is_free):
            continue
        more = DeviceAmount(1, int(one.is_held), int(one.is_free), int(failed))
        amounts[unit] = amounts.get(unit, DeviceAmount()).plus(more)
    return amounts, units, product


# --- holders -------------------------------------------------------------------------------------


class _Held:
    """What the pods of one node hold."""

    def __init__(self) -> None:
        self.holders: list[Holder] = []
        self.by_namespace: dict[str, Amounts] = {}
        self.degraded: dict[str, Amounts] = {}

    def add(self, pod: Pod, amounts: Amounts, indexes: tuple[int, ...], degraded: set[str]) -> None:
        """Count a pod, if it holds devices."""
        if amounts:
            self.holders.append(
                Holder(namespace=pod.namespace, pod=pod.name, devices=amounts, indexes=indexes)
            )
        if degraded:
            add_amounts(self.degraded.setdefault(pod.namespace, {}), dict.fromkeys(degraded, 1))

    def add_to_namespace(self, name: str, amounts: Amounts) -> None:
        """Count devices of a namespace."""
        if amounts:
            add_amounts(self.by_namespace.setdefault(name, {}), amounts)


def _holders(node_info: NodeInfo, store: DraStore, units: Mapping[DeviceId, str]) -> _Held:
    """The pods with devices, and the sums of their namespaces; a shared claim counts once there."""
    held = _Held()
    seen: set[str] = set()
    for pod, allocation in node_info.pods.values():
        amounts = _of_pod(node_info, pod, allocation)
        degraded = set(amounts) if pod.is_degraded else set()
        held.add_to_namespace(pod.namespace, amounts)
        for key in store.keys_of(pod) if units and _may_have_claims(node_info, pod) else ():
            claimed = _of_claim(store, key, units)
            add_amounts(amounts, claimed)
            if key in store.degraded:
                degraded |= claimed.keys()
            if claimed and key not in seen:
                seen.add(key)
                held.add_to_namespace(pod.namespace, claimed)
        held.add(pod, amounts, allocation.numbers, degraded)
    return held


def _of_pod(node_info: NodeInfo, pod: Pod, allocation: PodAllocation) -> Amounts:
    """What a pod holds of the device plugin, or by its map."""
    node = node_info.node
    assert node is not None
    requested = pod.gpu_requests
    if not requested:
        mapped = len(allocation.numbers) + allocation.unknown
        return {GPU: mapped} if mapped else {}
    amounts: Amounts = {}
    for resource, count in requested.items():
        if count and not node_info.is_served_by_dra(resource):
            add_amounts(amounts, {unit_on(node, resource): count})
    return amounts


def _may_have_claims(node_info: NodeInfo, pod: Pod) -> bool:
    return bool(pod.resource_claims) or node_info.dra is not None


def _of_claim(store: DraStore, key: str, units: Mapping[DeviceId, str]) -> Amounts:
    allocation = store.counted(key)
    amounts: Amounts = {}
    for one in allocation.results if allocation is not None else ():
        if not one.admin_access and one.id in units:
            add_amounts(amounts, {units[one.id]: 1})
    return amounts


def add_amounts(sums: Amounts, amounts: Mapping[str, int]) -> None:
    """Add amounts by unit to sums by unit."""
    for unit, count in amounts.items():
        sums[unit] = sums.get(unit, 0) + count


def requested_by(pod: Pod) -> Amounts:
    """What a pod requests of device plugins, by unit; its claims are counted as ``claim``."""
    amounts = {well_known.mig_profile(r): count for r, count in pod.gpu_requests.items() if count}
    if pod.resource_claims:
        amounts["claim"] = len(pod.resource_claims.claims)
    return amounts
