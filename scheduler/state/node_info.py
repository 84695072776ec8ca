"""NodeInfo: the allocations on one node.

Built from API objects only. A bound or assumed pod holds its effective requests and, if devices
have indexes, its devices::

    index-assigned node     every GPU has an index; a pod with unreadable indexes holds units of
                            unknown index, and no index is assigned until they are known
    dynamic MIG node        MIG instances are created on request: see ``state/mig/dynamic_gpus``
    kubelet-assigned node   the kubelet chooses; pods hold a count of the plugin's resource
                            without indexes, and pods mapped without a request cannot share it

Unknown data never makes a device free.

The allocation of a pod is read from the annotations of its Binding. A map counts if our Binding
wrote the devices, or if the pod's namespace may use maps. Any author can set a node and a map on a
pod, or a map on a running pod; this alone allocates no device.

Must never: use an index or a place on a pod of another scheduler; any user could write those.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model import resources, well_known
from scheduler.model.crd.mig_partition import MigInstance
from scheduler.model.gpu.device import Devices, MigPlacement, parse_devices
from scheduler.model.node import Node
from scheduler.model.pods.pod import HostPort, Pod
from scheduler.state.mig import dynamic_gpus


class PodAllocation(msgspec.Struct, frozen=True, gc=False):
    """A pod's devices on its node.

    ``numbers`` are GPU indexes; ``unknown`` is the number of GPUs with unknown indexes;
    ``is_mapped`` and ``sharing`` say which pods may share a device with it. ``has_request`` says
    whether the plugin's resource counts the GPUs already. ``mig_placements`` are the places of MIG
    instances that the scheduler chose.
    """

    numbers: tuple[int, ...] = ()
    unknown: int = 0
    is_mapped: bool = False
    has_request: bool = False
    sharing: str = ""
    mig_placements: tuple[MigPlacement, ...] = ()


def allocation_of(
    pod: Pod, devices: Devices | None, scheduler_name: str, *, may_map: bool
) -> PodAllocation:
    """The allocation of a placed pod; ``devices`` is the own choice while the pod is only assumed.

    ``may_map`` says whether the pod's namespace may use maps now; annotations of our Binding count
    whatever the namespace says later. Indexes count only on pods of this scheduler: any user could
    write the annotation on another pod. Unreadable means unknown, never free.
    """
    if pod.unread.requests:  # any GPU may be held by the pod
        return PodAllocation(unknown=1, has_request=True, sharing=pod.sharing)
    requested = pod.requests.get(well_known.GPU, 0)
    is_ours = pod.scheduler_name == scheduler_name
    text = pod.annotations.get(well_known.DEVICES) if is_ours else None
    is_given = may_map or devices is not None or text is not None
    is_mapped = is_ours and is_given and pod.map_text is not None
    if devices is None and text is not None:
        devices = _credible(pod, parse_devices(text))
    mig_placements = devices.mig_placements if devices is not None else ()
    # Indexes that do not match the request are ignored: the plugin assigned something else.
    if devices is not None and (not requested or len(devices.numbers) == requested):
        return PodAllocation(
            devices.numbers, 0, is_mapped, requested > 0, pod.sharing, mig_placements
        )
    is_past_plugin = (is_mapped or text is not None) and not pod.gpu_requests
    unknown = requested or int(is_past_plugin)
    return PodAllocation((), unknown, is_mapped, requested > 0, pod.sharing, mig_placements)


def has_same_allocation(before: Pod, after: Pod) -> bool:
    """Whether the allocation of a placed pod is unchanged, as far as the pod itself shows."""
    return (
        before.requests == after.requests
        and before.score_extra == after.score_extra
        and before.annotations == after.annotations
        and before.labels == after.labels
        and before.owner == after.owner
        and before.host_ports == after.host_ports
        and before.unread == after.unread
        and before.has_claims == after.has_claims
    )


def _credible(pod: Pod, devices: Devices | None) -> Devices | None:
    """The written devices, unless they contain instances that the pod did not request."""
    if (
        devices is None
        or not devices.mig_placements
        or any(map(well_known.is_mig, pod.gpu_requests))
    ):
        return devices
    return None


_NO_SCOPES: frozenset[str] = frozenset()


class DeviceUsage(msgspec.Struct, frozen=True):
    """The allocations of all pods of one node, device by device.

    ``holders`` maps a GPU index to the allocations on it; ``unknown`` counts GPUs held under
    unknown indexes; ``past_plugin`` counts GPUs of pods that were mapped without a request, which
    the device plugin does not count.
    """

    holders: dict[int, list[PodAllocation]]
    unknown: int
    past_plugin: int
    is_mapped_past_plugin: bool
    holds_plugin_devices: bool
    holds_slices: bool


class NodeInfo:
    """The mutable state of one node; ``node`` is None while only its pods are known."""

    __slots__ = (
        *("_instances", "_gpus", "_left", "_usage", "avoided"),
        *(
            "claims",
            "is_dynamic",
            "is_settled",
            "node",
            "pods",
            "ports",
            "gpus_in_backoff",
            "unread",
            "score_extra",
            "used",
        ),
        "with_volumes",
    )

    def __init__(self, node: Node | None) -> None:
        #: The node as last seen, or None; changed by ``set_node`` only.
        self.node = node
        #: Whether this is a dynamic MIG node; cached because it is read very often.
        self.is_dynamic = node is not None and node.dynamic_mig is not None
        self._usage: DeviceUsage | None = None
        self._left: dict[str, int] | None = None
        self._gpus: dynamic_gpus.DynamicGpus | None = None
        self._instances: tuple[MigInstance, ...] = ()
        self.pods: dict[str, tuple[Pod, PodAllocation]] = {}
        self.used: dict[str, int] = {}
        #: The sums of what scores add to the requests of its pods: cpu and memory.
        self.score_extra = resources.NO_SCORE_EXTRA
        self.ports: dict[HostPort, int] = {}
        #: The pods that mount claims or disks.
        self.with_volumes: dict[str, Pod] = {}
        #: Number of pods with undecodable requests: their allocation is unknown.
        self.unread = 0
        #: Number of pods with devices from resource claims: these devices are unknown.
        self.claims = 0
        #: The scopes for which the node is avoided (``state/breakers/node_circuit_breaker``).
        self.avoided = _NO_SCOPES
        #: Whether the wait for the node's MIG layout is over (``state/mig/layout_wait``).
        self.is_settled = False
        #: GPUs in backoff: no MIG instance is requested on them.
        self.gpus_in_backoff: frozenset[int] = frozenset()

    def set_node(self, node: Node | None) -> None:
        """Set the node's newest state; None after its deletion."""
        self.node = node
        self.is_dynamic = node is not None and node.dynamic_mig is not None
        self._invalidate()

    def _invalidate(self) -> None:
        self._usage = self._left = self._gpus = None

    def upsert_partitions(
        self, instances: tuple[MigInstance, ...], gpus_in_backoff: frozenset[int]
    ) -> bool:
        """Fold the MigPartition status and the GPUs in backoff; returns whether they changed."""
        if (instances, gpus_in_backoff) == (self._instances, self.gpus_in_backoff):
            return False
        self._instances, self.gpus_in_backoff = instances, gpus_in_backoff
        self._invalidate()
        return True

    @property
    def instances(self) -> tuple[MigInstance, ...]:
        """The instances in the MigPartition status."""
        return self._instances

    @property
    def gpus(self) -> dynamic_gpus.DynamicGpus | None:
        """The dynamic MIG GPUs, recomputed only after a change; else None."""
        if self.is_dynamic and self._gpus is None:
            assert self.node is not None
            assert self.node.dynamic_mig is not None
            pods, unusable = self.pods.values(), self.gpus_in_backoff | self.node.failed_gpus
            self._gpus = dynamic_gpus.count(self.node.dynamic_mig, pods, self._instances, unusable)
        return self._gpus

    def copy(self) -> NodeInfo:
        """An independent copy, for hypothetical placements."""
        twin = NodeInfo(self.node)
        twin._usage = self._usage
        twin._instances, twin.gpus_in_backoff = self._instances, self.gpus_in_backoff
        twin.pods = dict(self.pods)
        twin.used = dict(self.used)
        twin.score_extra = self.score_extra
        twin.ports = dict(self.ports)
        twin.with_volumes = dict(self.with_volumes)
        twin.avoided, twin.unread, twin.claims = self.avoided, self.unread, self.claims
        twin.is_settled = self.is_settled
        return twin

    def add(self, pod: Pod, allocation: PodAllocation) -> None:
        """Add a pod; a second call with the same uid replaces the entry."""
        if pod.uid in self.pods:
            self.remove(pod.uid)
        self._invalidate()
        self.pods[pod.uid] = (pod, allocation)
        self.unread += bool(pod.unread.requests)
        self.claims += pod.has_claims
        if pod.volumes:
            self.with_volumes[pod.uid] = pod
        for resource, value in pod.requests.items():
            self.used[resource] = self.used.get(resource, 0) + value
        self._add_score_extra(pod, 1)
        for port in pod.host_ports:
            self.ports[port] = self.ports.get(port, 0) + 1

    def pod(self, uid: str) -> Pod | None:
        """A pod as it was entered, or None when it is not here."""
        entry = self.pods.get(uid)
        return entry[0] if entry is not None else None

    def renew(self, pod: Pod) -> None:
        """Store the newest state of a pod whose allocation is unchanged."""
        self.pods[pod.uid] = (pod, self.pods[pod.uid][1])

    def remove(self, uid: str) -> Pod | None:
        """Remove a pod; None if it was not here."""
        entry = self.pods.pop(uid, None)
        if entry is None:
            return None
        self._invalidate()
        pod = entry[0]
        self.unread -= bool(pod.unread.requests)
        self.claims -= pod.has_claims
        self.with_volumes.pop(uid, None)
        for resource, value in pod.requests.items():
            self.used[resource] -= value
        self._add_score_extra(pod, -1)
        for port in pod.host_ports:
            self.ports[port] -= 1
            if self.ports[port] == 0:
                del self.ports[port]
        return pod

    def _add_score_extra(self, pod: Pod, sign: int) -> None:
        if pod.score_extra != resources.NO_SCORE_EXTRA:
            (cpu, memory), (more_cpu, more_memory) = self.score_extra, pod.score_extra
            self.score_extra = cpu + sign * more_cpu, memory + sign * more_memory

    @property
    def usage(self) -> DeviceUsage:
        """The sums per device, recomputed only after a change."""
        if self._usage is None:
            self._usage = _count(self.pods.values())
        return self._usage

    @property
    def left(self) -> dict[str, int]:
        """The free amount of every resource that is advertised or allocated.

        May be negative after allocatable shrank. On an index-assigned node that advertises GPUs,
        devices of pods mapped without a request are subtracted too: the plugin does not count them.
        """
        if self._left is None:
            self._left = self._compute_left()
        return self._left

    def _compute_left(self) -> dict[str, int]:
        node = self.node
        if node is None:
            return {}
        left = dict(node.allocatable)
        for resource, used in self.used.items():
            left[resource] = left.get(resource, 0) - used
        if self.is_dynamic and (gpus := self.gpus) is not None:
            left.update(gpus.left)
        if well_known.GPU in node.allocatable and node.is_index_assigned:
            left[well_known.GPU] -= self.usage.past_plugin
        return left

    def free(self, resource: str) -> int:
        """The free amount of a resource; 0 for one that is not advertised."""
        return self.left.get(resource, 0)

    @property
    def free_devices(self) -> int:
        """How many GPUs and MIG instances of any kind are left."""
        if self.node is None:
            return 0
        return sum(self.free(resource) for resource in self.node.devices)

    def free_indexes(self) -> tuple[int, ...]:
        """Free indexes, ascending; empty if the node has no known GPU count."""
        there = self.node.indexes if self.node else ()
        return tuple(number for number in there if number not in self.usage.holders)


def _count(entries: Iterable[tuple[Pod, PodAllocation]]) -> DeviceUsage:
    holders: dict[int, list[PodAllocation]] = {}
    by_request: set[int] = set()
    past_request: set[int] = set()
    unknown = past_unknown = 0
    mapped_past = plugin = slices = False
    for pod, allocation in entries:
        if allocation.numbers:
            for number in allocation.numbers:
                holders.setdefault(number, []).append(allocation)
            (by_request if allocation.has_request else past_request).update(allocation.numbers)
        if allocation.unknown:
            unknown += allocation.unknown
            past_unknown += 0 if allocation.has_request else allocation.unknown
        if pod.gpu_requests:
            plugin = True
            slices = slices or any(map(well_known.is_mig, pod.gpu_requests))
        # Not by the map alone: its author may remove it from a running pod.
        elif allocation.is_mapped or allocation.numbers or allocation.unknown:
            mapped_past = True
    past_plugin = len(past_request - by_request) + past_unknown
    return DeviceUsage(holders, unknown, past_plugin, mapped_past, plugin, slices)


def over_committed(node_info: NodeInfo) -> dict[str, int]:
    """Device resources with more allocated than advertised, with the excess; {} if consistent."""
    offered = node_info.node.devices if node_info.node is not None else ()
    excess = {
        resource: -node_info.free(resource)
        for resource in {*node_info.used, *offered}
        if well_known.is_gpu_device(resource) and node_info.free(resource) < 0
    }
    for number, allocations in node_info.usage.holders.items():
        if len({allocation.sharing for allocation in allocations}) > 1 or (
            len(allocations) > 1 and not all(allocation.is_mapped for allocation in allocations)
        ):
            excess[f"gpu:{number}"] = len(allocations) - 1
    return excess
