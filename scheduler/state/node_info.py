"""NodeInfo: the allocations on one node.

Built from API objects only. A bound or assumed pod holds its effective requests and, if devices
have indexes, its devices::

    index-assigned node     every GPU has an index; a pod with unreadable indexes holds units of
                            unknown index, and no index is assigned until they are known
    dynamic MIG node        MIG instances are created on request: see ``state/mig/dynamic_gpus``
    kubelet-assigned node   the kubelet chooses; pods hold a count of the plugin's resource
                            without indexes, and pods mapped without a request cannot share it
    node with DRA devices   a pod holds the devices of its claims (``state/dra``), and nothing else

Unknown data never makes a device free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from scheduler.model import resources, well_known
from scheduler.model.crd.mig_partition import MigInstance
from scheduler.model.dra.gpu_indexes import GpuIndexes
from scheduler.model.gpu.near_gpus import Place
from scheduler.model.node import Node
from scheduler.model.pods.pod import HostPort, Pod
from scheduler.model.volumes.pod_volumes import NO_VOLUMES
from scheduler.state.counts import add
from scheduler.state.dra.device_counts import DeviceCounts
from scheduler.state.mig import dynamic_gpus
from scheduler.state.pod_allocation import PodAllocation

_NO_SCOPES: frozenset[str] = frozenset()
#: Where another driver's devices are GPUs by their DeviceClass only.
NO_INDEXES: Final = GpuIndexes(problem="no attribute with the index of its devices is configured")


class DeviceUsage(msgspec.Struct, frozen=True):
    """The allocations of all pods of one node, device by device.

    ``holders`` maps a GPU index to the allocations on it; ``unknown`` counts GPUs held under
    unknown indexes; ``past_plugin`` counts GPUs of pods that were mapped without a request, which
    the device plugin does not count.
    """

    holders: dict[int, list[PodAllocation]]
    unknown: int
    past_plugin: int
    holds_plugin_devices: bool
    holds_slices: bool


class NodeInfo:
    """The mutable state of one node; ``node`` is None while only its pods are known."""

    __slots__ = (
        *("_instances", "_gpus", "_left", "_placed", "_usage", "avoided"),
        *(
            "claims",
            "dra",
            "is_dynamic",
            "is_settled",
            "node",
            "pods",
            "ports",
            "gpus_in_backoff",
            "mapped_past_plugin",
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
        #: Number of pods with GPUs that no plugin counts: a map named them without a request.
        self.mapped_past_plugin = 0
        #: Devices that DRA drivers publish here, by extended resource; None if there is no pool.
        self.dra: DeviceCounts | None = None
        #: Of a copy: what its pods requested when it was made. The claims of these pods count.
        self._placed: dict[str, int] | None = None
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

    def upsert_devices(self, dra: DeviceCounts | None) -> None:
        """Fold the devices that DRA drivers publish, and how many of them are free."""
        self.dra = dra
        self._left = None

    def count_claims(self, pod: Pod, sign: int) -> None:
        """The claims of a pod that is tried out here count in ``dra`` (1), or do not any more
        (-1).
        """
        if self._placed is not None:
            for resource, value in pod.requests.items():
                self._placed[resource] = self._placed.get(resource, 0) + sign * value

    def is_served_by_dra(self, resource: str) -> bool:
        """Whether a claim gives a pod this resource here (kube-scheduler:
        shouldDelegateResourceToDRA).

        A device plugin has precedence, unless it advertises none.
        """
        dra, node = self.dra, self.node
        if dra is None or node is None or resource not in dra.classes:
            return False
        return not node.allocatable.get(resource, 0)

    @property
    def dra_gpus(self) -> GpuIndexes | None:
        """The GPUs that only claims give to pods here, by index; None if there are none."""
        if self.dra is None or self.node is None or self.node.allocatable.get(well_known.GPU, 0):
            return None
        if self.dra.gpus is None and self.dra.total.get(well_known.GPU, 0):
            return NO_INDEXES
        return self.dra.gpus

    @property
    def gpu_places(self) -> Mapping[int, Place]:
        """The NUMA node and the PCIe root of each GPU, where ResourceSlices publish them."""
        return self.dra.gpus.places if self.dra is not None and self.dra.gpus is not None else {}

    def has_indexes_for(self, pod: Pod) -> bool:
        """Whether the indexes of a pod's map reach the hardware: without a device plugin, through
        ours, or through a claim.
        """
        assert self.node is not None
        if not pod.gpu_requests:
            return True
        return well_known.GPU in pod.gpu_requests and (
            self.node.is_index_assigned or self.dra_gpus is not None
        )

    @property
    def devices(self) -> tuple[str, ...]:
        """The GPU and MIG resources that the node offers, by a plugin or by DRA."""
        assert self.node is not None
        if self.dra is None:
            return self.node.devices
        more = (r for r, total in self.dra.total.items() if total and well_known.is_gpu_device(r))
        return tuple(dict.fromkeys((*self.node.devices, *more)))

    def most(self, resource: str) -> int:
        """The amount of a resource on the empty node."""
        assert self.node is not None
        if self.dra is not None and self.is_served_by_dra(resource):
            return self.dra.total.get(resource, 0)
        return self.node.most(resource)

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
        twin.is_settled, twin.mapped_past_plugin = self.is_settled, self.mapped_past_plugin
        twin.dra = self.dra
        if self.dra is not None:
            twin._placed = dict(self.used if self._placed is None else self._placed)
        return twin

    def add(self, pod: Pod, allocation: PodAllocation) -> None:
        """Add a pod; a second call with the same uid replaces the entry."""
        if pod.uid in self.pods:
            self.remove(pod.uid)
        self._invalidate()
        self.pods[pod.uid] = (pod, allocation)
        for resource, value in pod.requests.items():
            self.used[resource] = self.used.get(resource, 0) + value
        self._count_others(pod, allocation, 1)
        if pod.volumes is not NO_VOLUMES:
            self.with_volumes[pod.uid] = pod

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
        pod, allocation = entry
        for resource, value in pod.requests.items():
            self.used[resource] -= value
        self._count_others(pod, allocation, -1)
        self.with_volumes.pop(uid, None)
        return pod

    def _count_others(self, pod: Pod, allocation: PodAllocation, sign: int) -> None:
        """Count what a pod has beside its requests; most pods have nothing else."""
        if pod.score_extra != resources.NO_SCORE_EXTRA:
            (cpu, memory), (more_cpu, more_memory) = self.score_extra, pod.score_extra
            self.score_extra = cpu + sign * more_cpu, memory + sign * more_memory
        if pod.unread.requests:
            self.unread += sign
        if pod.resource_claims:
            self.claims += sign
        elif not pod.gpu_requests and allocation.has_gpus:
            # Not by the map alone: its author may remove it from a running pod.
            self.mapped_past_plugin += sign
        for port in pod.host_ports:
            add(self.ports, port, sign)

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
        if self.dra is not None:
            left.update(self._left_of_dra(self.dra))
        return left

    def _left_of_dra(self, dra: DeviceCounts) -> dict[str, int]:
        """The devices that no claim uses, without those of pods that are tried out here."""
        placed = self.used if self._placed is None else self._placed
        return {
            resource: free - max(0, self.used.get(resource, 0) - placed.get(resource, 0))
            for resource, free in dra.free.items()
            if self.is_served_by_dra(resource)
        }

    def free(self, resource: str) -> int:
        """The free amount of a resource; 0 for one that is not advertised."""
        return self.left.get(resource, 0)

    @property
    def free_devices(self) -> dict[str, int]:
        """How many are left of each kind of GPUs and MIG instances that the node offers."""
        if self.node is None:
            return {}
        left = self.left
        return {resource: left.get(resource, 0) for resource in self.devices}

    @property
    def device_rank(self) -> int:
        """The place of the node in the order for pods without GPUs."""
        return self.device_rank_with(self.free_devices)

    def device_rank_with(self, free_devices: Mapping[str, int]) -> int:
        """0 without GPUs, else one more than the free devices: a node whose GPUs are all in use
        comes after a node without GPUs. GPUs that only claims give count as in use.
        """
        has_gpus = free_devices or (self.dra is not None and self.dra.has_gpus)
        return 1 + max(0, sum(free_devices.values())) if has_gpus else 0

    def free_indexes(self) -> tuple[int, ...]:
        """Free indexes, ascending; empty if the node has no known GPU count."""
        there = self.node.indexes if self.node else ()
        return tuple(number for number in there if number not in self.usage.holders)


def _count(entries: Iterable[tuple[Pod, PodAllocation]]) -> DeviceUsage:
    holders: dict[int, list[PodAllocation]] = {}
    unknown = past_unknown = 0
    past_request = plugin = slices = False
    for pod, allocation in entries:
        if allocation.numbers:
            for number in allocation.numbers:
                holders.setdefault(number, []).append(allocation)
            past_request = past_request or not allocation.has_request
        if allocation.unknown:
            unknown += allocation.unknown
            past_unknown += 0 if allocation.has_request else allocation.unknown
        if pod.gpu_requests:
            plugin = True
            slices = slices or any(map(well_known.is_mig, pod.gpu_requests))
    past_plugin = past_unknown
    if past_request:  # most nodes have no such pod
        past_plugin += sum(not any(one.has_request for one in held) for held in holders.values())
    return DeviceUsage(holders, unknown, past_plugin, plugin, slices)


def over_committed(node_info: NodeInfo) -> dict[str, int]:
    """Device resources with more allocated than advertised, with the excess; {} if consistent."""
    offered = node_info.devices if node_info.node is not None else ()
    excess = {
        resource: -node_info.free(resource)
        for resource in {*node_info.used, *offered}
        if well_known.is_gpu_device(resource) and node_info.free(resource) < 0
    }
    by_index = node_info.usage.holders if node_info.dra_gpus is None else {}
    for number, allocations in by_index.items():
        if len({allocation.sharing for allocation in allocations}) > 1 or (
            len(allocations) > 1 and not all(allocation.is_mapped for allocation in allocations)
        ):
            excess[f"gpu:{number}"] = len(allocations) - 1
    return excess
