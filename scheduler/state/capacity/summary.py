"""Sums of the devices of all nodes: by model of the board, and by namespace.

Nodes are added one at a time, so that the caller can let other work run between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.model.quota import Quota
from scheduler.model.well_known import mig_profile
from scheduler.state.capacity.node_devices import (
    GPU,
    Amounts,
    DeviceAmount,
    NodeDevices,
    add_amounts,
    is_slice,
    slice_size,
)

#: Sizes of jobs for which the room is counted.
SIZES: Final = (8, 4, 2, 1)
UNKNOWN_MODEL: Final = "unknown"


class _Shape(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Encoded without empty fields."""


class ModelCapacity(_Shape, frozen=True, kw_only=True):
    """The devices of all nodes with one board.

    ``fits`` is how many pods with 8, 4, 2 and 1 GPUs on one node would start now, each size alone.
    ``largest`` is the largest number of free GPUs on one node, ``largest_node``, and
    ``largest_slice`` the largest MIG profile of which one is free.
    """

    product: str
    memory_mib: int = 0
    nodes: int = 0
    devices: dict[str, DeviceAmount] = {}
    fits: dict[str, int] = {}
    largest: int = 0
    largest_node: str = ""
    largest_slice: str = ""


class QuotaUse(_Shape, frozen=True, kw_only=True):
    """One GPU limit of a ResourceQuota, by unit."""

    quota: str
    device: str
    used: int
    hard: int
    scoped: bool = False


class WaitingPod(_Shape, frozen=True, kw_only=True):
    """A waiting pod; ``position`` counts from 1 in the order of the queue, without backoff.

    ``code`` is the first reason code of the last decision (docs/reasons.md), empty before it.
    """

    namespace: str
    pod: str
    devices: Amounts = {}
    waits_s: float = 0.0
    place: str = ""
    position: int = 0
    priority: int = 0
    code: str = ""


class NamespaceCapacity(_Shape, frozen=True, kw_only=True):
    """What one namespace holds and waits for. ``pods`` are those with devices.

    ``waiting_codes`` are the waiting devices by reason code, ``degraded`` the pods that have less
    than they requested, by what they have.
    """

    namespace: str
    pods: int = 0
    devices: Amounts = {}
    waiting_pods: int = 0
    waiting_devices: Amounts = {}
    waiting_codes: dict[str, Amounts] = {}
    degraded: Amounts = {}
    oldest_wait_s: float = 0.0
    quotas: tuple[QuotaUse, ...] = ()


class _Model:
    """The sums of one board so far."""

    def __init__(self) -> None:
        self.nodes = 0
        self.devices: dict[str, DeviceAmount] = {}
        self.fits = dict.fromkeys(SIZES, 0)
        self.largest = 0
        self.largest_node = ""
        self.largest_slice = ""

    def add(self, one: NodeDevices) -> None:
        self.nodes += 1
        for unit, amount in one.devices.items():
            self.devices[unit] = self.devices.get(unit, DeviceAmount()).plus(amount)
            if amount.free <= 0:
                continue
            if unit == GPU:
                for size in SIZES:
                    self.fits[size] += amount.free // size
                if amount.free > self.largest:
                    self.largest, self.largest_node = amount.free, one.node
            elif is_slice(unit) and slice_size(unit) > slice_size(self.largest_slice):
                self.largest_slice = unit


class _Namespace:
    """The sums of one namespace so far."""

    def __init__(self) -> None:
        self.pods = 0
        self.devices: Amounts = {}
        self.waiting_pods = 0
        self.waiting_devices: Amounts = {}
        self.waiting_codes: dict[str, Amounts] = {}
        self.degraded: Amounts = {}
        self.oldest_wait_s = 0.0


class CapacitySummary:
    """Sums over nodes, waiting pods and quotas."""

    def __init__(self) -> None:
        self._models: dict[tuple[str, int], _Model] = {}
        self._namespaces: dict[str, _Namespace] = {}

    def add_node(self, one: NodeDevices) -> None:
        """Count the devices of a node and of its pods."""
        if one.devices:
            model = (one.product or UNKNOWN_MODEL, one.memory_mib)
            self._models.setdefault(model, _Model()).add(one)
        for name, amounts in one.by_namespace.items():
            add_amounts(self._of(name).devices, amounts)
        for name, amounts in one.degraded.items():
            add_amounts(self._of(name).degraded, amounts)
        for holder in one.holders:
            self._of(holder.namespace).pods += 1

    def add_holder(self, namespace: str, amounts: Amounts) -> None:
        """Count a pod whose node is not known."""
        found = self._of(namespace)
        found.pods += 1
        add_amounts(found.devices, amounts)

    def add_waiting(self, namespace: str, amounts: Amounts, waits_s: float, code: str = "") -> None:
        """Count a waiting pod; ``code`` is the first reason of its last decision."""
        found = self._of(namespace)
        found.waiting_pods += 1
        add_amounts(found.waiting_devices, amounts)
        if code:
            add_amounts(found.waiting_codes.setdefault(code, {}), amounts)
        found.oldest_wait_s = max(found.oldest_wait_s, waits_s)

    def models(self) -> tuple[ModelCapacity, ...]:
        """By board, the one with the most devices first."""
        found = [
            ModelCapacity(
                product=product,
                memory_mib=memory,
                nodes=one.nodes,
                devices=dict(sorted(one.devices.items())),
                fits={str(size): count for size, count in one.fits.items()}
                if GPU in one.devices
                else {},
                largest=one.largest,
                largest_node=one.largest_node,
                largest_slice=one.largest_slice,
            )
            for (product, memory), one in self._models.items()
        ]
        return tuple(sorted(found, key=lambda one: (-_size(one), one.product, one.memory_mib)))

    def namespaces(self, quotas: Iterable[Quota]) -> tuple[NamespaceCapacity, ...]:
        """By namespace, the one with the most devices first."""
        limits: dict[str, list[QuotaUse]] = {}
        for quota in quotas:
            for use in quota_uses(quota):
                limits.setdefault(quota.namespace, []).append(use)
        names = dict.fromkeys((*self._namespaces, *limits))
        found = [_namespace(name, self._of(name), limits.get(name, ())) for name in names]
        return tuple(sorted(found, key=lambda one: (-sum(one.devices.values()), one.namespace)))

    def _of(self, name: str) -> _Namespace:
        found = self._namespaces.get(name)
        if found is None:
            found = self._namespaces[name] = _Namespace()
        return found


def quota_uses(quota: Quota) -> list[QuotaUse]:
    """The GPU limits of a quota, by unit."""
    return [
        QuotaUse(
            quota=quota.name,
            device=mig_profile(resource),
            used=quota.used.get(resource, 0),
            hard=hard,
            scoped=bool(quota.scopes),
        )
        for resource, hard in sorted(quota.hard.items())
    ]


def _namespace(name: str, one: _Namespace, quotas: Iterable[QuotaUse]) -> NamespaceCapacity:
    return NamespaceCapacity(
        namespace=name,
        pods=one.pods,
        devices=dict(sorted(one.devices.items())),
        waiting_pods=one.waiting_pods,
        waiting_devices=dict(sorted(one.waiting_devices.items())),
        waiting_codes=dict(sorted(one.waiting_codes.items())),
        degraded=dict(sorted(one.degraded.items())),
        oldest_wait_s=one.oldest_wait_s,
        quotas=tuple(sorted(quotas, key=lambda use: (use.quota, use.device))),
    )


def _size(one: ModelCapacity) -> int:
    return sum(amount.total for amount in one.devices.values())
