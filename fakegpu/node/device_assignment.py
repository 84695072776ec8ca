"""Assigns a node's devices to its pods, with the values of the metrics.

The order of precedence: the allocation of the kubelet, as the agent recorded it; the scheduler's
choice on the pod; the former assignment; the first free device, in the order of pods' creation. So
a pod keeps its device for its life, and a late computation loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from fakegpu.node.advertised_devices import Device, mig_resource, physical, supply
from fakegpu.node.device_names import ids_by_name
from fakegpu.node.device_status import written
from fakegpu.node.pod_devices import Claimed, Need, PodUse
from fakegpu.topology.node_topology import (
    AllocatedBy,
    NodeTopology,
)
from scheduler.model.well_known import GPU

#: (namespace, pod, container) -> the allocated ids.
Assigned = Mapping[tuple[str, str, str], Sequence[str]]
NOTHING: Final[Assigned] = MappingProxyType({})
UNCLAIMED: Final[Claimed] = MappingProxyType({})


class _DevicePool:
    """Devices during the assignment."""

    def __init__(self, topology: NodeTopology) -> None:
        # Holders of a GPU that fell off the bus still get its events.
        there = supply(topology, with_lost=True)
        self.free: dict[str, list[Device]] = {k: list(v) for k, v in there.items()}
        #: By physical device: its holders, with repetitions.
        self.held: dict[str, list[tuple[PodUse, AllocatedBy]]] = {}

    def take(self, need: Need, pod: PodUse, wanted: Iterable[str], *, exact: bool) -> int:
        """Assign devices with these ids (a shared id has several); returns how many."""
        taken = 0
        for device_id in wanted:
            if taken == need.count:
                break
            for device in self.free.get(need.resource, ()):
                name = device.id if exact else physical(device.id)
                if name == device_id:
                    self._give(need, pod, device)
                    taken += 1
                    break
        return taken

    def take_first(self, need: Need, pod: PodUse, count: int) -> None:
        """Assign the first free healthy devices; fewer if there are not enough."""
        healthy = [device for device in self.free.get(need.resource, ()) if device.is_healthy]
        for device in healthy[:count]:
            self._give(need, pod, device)

    def hold(self, pod: PodUse, container: str, device: str) -> None:
        """A claim holds a device beside other holders; no further pod gets it."""
        for resource, devices in self.free.items():
            self.free[resource] = [one for one in devices if physical(one.id) != device]
        holder = AllocatedBy(namespace=pod.namespace, pod=pod.name, container=container)
        self.held.setdefault(device, []).append((pod, holder))

    def given(self, pod: PodUse, need: Need) -> list[str]:
        """The devices of the container so far, by physical device."""
        return [
            device
            for device, holders in self.held.items()
            for other, holder in holders
            if other.uid == pod.uid and holder.container == need.container
        ]

    def _give(self, need: Need, pod: PodUse, device: Device) -> None:
        self.free[need.resource].remove(device)
        holder = AllocatedBy(namespace=pod.namespace, pod=pod.name, container=need.container)
        self.held.setdefault(physical(device.id), []).append((pod, holder))


def assign(
    topology: NodeTopology,
    pods: Iterable[PodUse],
    *,
    before: NodeTopology | None = None,
    assigned: Assigned = NOTHING,
    claimed: Claimed = UNCLAIMED,
) -> NodeTopology:
    """The topology with holders and their usage."""
    pool = _DevicePool(topology)
    in_order = sorted(pods, key=lambda pod: (pod.created, pod.uid))
    if claimed:
        ids = ids_by_name(topology)
        for pod in in_order:
            for container, device in pod.held(claimed):
                if device.lower() in ids:
                    pool.hold(pod, container, ids[device.lower()])
    former = _former(before)
    # One rule for all pods before the next rule: otherwise a pod could take the device that the
    # kubelet allocated to another.
    left = {(pod.uid, need): need.count for pod in in_order for need in pod.needs}
    for pod, need in _needs(in_order):
        seen = assigned.get((pod.namespace, pod.name, need.container), ())
        left[pod.uid, need] -= pool.take(need, pod, seen, exact=True)
    for pod in in_order:
        numbers = chosen_ids(topology, pod)
        for need in pod.needs:
            wanted = numbers.get(need.resource, [])
            taken = pool.take(_less(need, left[pod.uid, need]), pod, wanted, exact=False)
            left[pod.uid, need] -= taken
            del wanted[:taken]
    for pod, need in _needs(in_order):
        had = former.get((pod.namespace, pod.name, need.container), ())
        held = _without(had, pool.given(pod, need))
        left[pod.uid, need] -= pool.take(_less(need, left[pod.uid, need]), pod, held, exact=False)
    for pod, need in _needs(in_order):
        pool.take_first(need, pod, left[pod.uid, need])
    return written(topology, pool.held, [pod for pod in in_order if pod.shares])


def _needs(pods: Sequence[PodUse]) -> Iterator[tuple[PodUse, Need]]:
    return ((pod, need) for pod in pods for need in pod.needs)


def _without(ids: Iterable[str], less: list[str]) -> list[str]:
    """A shared device may be held several times, so each one counts."""
    rest = []
    for one in ids:
        if one in less:
            less.remove(one)
        else:
            rest.append(one)
    return rest


def _less(need: Need, count: int) -> Need:
    return need if need.count == count else msgspec.structs.replace(need, count=count)


def _former(before: NodeTopology | None) -> dict[tuple[str, str, str], list[str]]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for gpu in before.gpus if before else ():
        for device_id, status in ((gpu.id, gpu.status), *((d.id, d.status) for d in gpu.instances)):
            for holder in status.held_by:
                key = (holder.namespace, holder.pod, holder.container)
                found.setdefault(key, []).append(device_id)
    return found


def chosen_ids(topology: NodeTopology, pod: PodUse) -> dict[str, list[str]]:
    """The scheduler's choice by index or place: ids by resource, in its order."""
    found: dict[str, list[str]] = {}
    for number in pod.chosen.numbers:
        if number < len(topology.gpus):
            found.setdefault(GPU, []).append(topology.gpus[number].id)
    for mig_placement in pod.chosen.mig_placements:
        gpu = topology.gpus[mig_placement.gpu] if mig_placement.gpu < len(topology.gpus) else None
        for device in gpu.instances if gpu else ():
            if (device.profile, device.position) == (mig_placement.profile, mig_placement.start):
                found.setdefault(mig_resource(mig_placement.profile), []).append(device.id)
    return found
