"""Gauges of devices: how many are held, free and failed, by node, model and namespace, and who
waits.

They are summed when they are scraped, by the same code as ``GET /capacity`` (``scraped_sums``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scheduler.report.decisions.api_types import Capacity
from scheduler.report.decisions.capacity import CapacityReport
from scheduler.report.scraped_sums import OTHERS, ScrapedSums
from scheduler.state.capacity.node_devices import GPU, Amounts, DeviceAmount, add_amounts
from scheduler.state.capacity.summary import UNKNOWN_MODEL, NamespaceCapacity

NODES_MAX: Final = 1_000
NAMESPACES_MAX: Final = 1_000

DEVICE_GAUGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "gpu_scheduler_devices": (
        "GPUs and MIG instances by board and state: held, free, failed, or unavailable (of a node"
        " that is cordoned or not ready, or a partition beside one that is held).",
        ("model", "device", "state"),
    ),
    "gpu_scheduler_node_devices": (
        f"The same of each node; the nodes after the first {NODES_MAX} by name are summed as"
        f" {OTHERS}.",
        ("node", "model", "device", "state"),
    ),
    "gpu_scheduler_largest_free_block": (
        "The largest number of free GPUs on one node, by board.",
        ("model",),
    ),
    "gpu_scheduler_namespace_devices": (
        f"GPUs and MIG instances held by the pods of a namespace; of more than {NAMESPACES_MAX}"
        f" namespaces those with fewer devices are summed as {OTHERS}.",
        ("namespace", "device"),
    ),
    "gpu_scheduler_pending_devices": (
        "GPUs and MIG instances requested by pending pods of a namespace, by the first reason code"
        " of their last decision (docs/reasons.md), or NEW before it.",
        ("namespace", "device", "code"),
    ),
    "gpu_scheduler_namespace_pending_pods": (
        "Pending pods of a namespace.",
        ("namespace",),
    ),
    "gpu_scheduler_oldest_pending_timestamp_seconds": (
        "Since when the oldest pending pod of a namespace waits, in seconds since 1970.",
        ("namespace",),
    ),
    "gpu_scheduler_degraded_pods": (
        "Pods that have a smaller slice than they requested, by the device that they have.",
        ("namespace", "device"),
    ),
}
#: The code of pods that were not decided yet.
NEW: Final = "NEW"

Families = dict[str, GaugeMetricFamily]


class CapacityMetrics(Collector):
    """Collects the sums of one process; ``clock`` is in seconds."""

    def __init__(
        self, report: CapacityReport, leads: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        self._sums = ScrapedSums(
            lambda: report.take(with_nodes=True, with_holders=False), leads, clock
        )

    async def refresh(self) -> None:
        """Sum the state again, unless the sums are recent."""
        await self._sums.refresh()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families of the last sums; without sums they are empty."""
        families = {
            name: GaugeMetricFamily(name, text, labels=labels)
            for name, (text, labels) in DEVICE_GAUGES.items()
        }
        sums = self._sums.last
        if sums is not None:
            _add_models(families, sums)
            _add_nodes(families, sums)
            _add_namespaces(families, sums)
        yield from families.values()


def _add_models(families: Families, sums: Capacity) -> None:
    totals: dict[tuple[str, str], DeviceAmount] = {}
    largest: Amounts = {}
    for model in sums.models:  # one board may have several sizes of memory
        for device, amount in model.devices.items():
            key = (model.product, device)
            totals[key] = totals.get(key, DeviceAmount()).plus(amount)
        if GPU in model.devices:
            largest[model.product] = max(model.largest, largest.get(model.product, 0))
    for key, amount in totals.items():
        for state, count in _states(amount):
            families["gpu_scheduler_devices"].add_metric((*key, state), count)
    for product, count in largest.items():
        families["gpu_scheduler_largest_free_block"].add_metric((product,), count)


def _add_nodes(families: Families, sums: Capacity) -> None:
    totals: dict[tuple[str, str, str], DeviceAmount] = {}
    for number, one in enumerate(sums.nodes):
        node = one.node if number < NODES_MAX else OTHERS
        for device, amount in one.devices.items():
            key = (node, one.product or UNKNOWN_MODEL, device)
            totals[key] = totals.get(key, DeviceAmount()).plus(amount)
    for key, amount in totals.items():
        for state, count in _states(amount):
            families["gpu_scheduler_node_devices"].add_metric((*key, state), count)


def _add_namespaces(families: Families, sums: Capacity) -> None:
    time_s = datetime.fromisoformat(sums.time).timestamp()
    rest = [one for one in sums.namespaces if one.devices or one.waiting_pods or one.degraded]
    shown, others = rest[:NAMESPACES_MAX], rest[NAMESPACES_MAX:]
    for one in shown:
        _add_namespace(families, one.namespace, (one,), time_s)
    if others:
        _add_namespace(families, OTHERS, others, time_s)


def _add_namespace(
    families: Families, name: str, members: Iterable[NamespaceCapacity], time_s: float
) -> None:
    held: Amounts = {}
    degraded: Amounts = {}
    pending: dict[tuple[str, str], int] = {}
    pods, oldest_s = 0, 0.0
    for one in members:
        add_amounts(held, one.devices)
        add_amounts(degraded, one.degraded)
        for key, count in _pending(one).items():
            pending[key] = pending.get(key, 0) + count
        pods += one.waiting_pods
        oldest_s = max(oldest_s, one.oldest_wait_s)
    for device, count in held.items():
        families["gpu_scheduler_namespace_devices"].add_metric((name, device), count)
    for device, count in degraded.items():
        families["gpu_scheduler_degraded_pods"].add_metric((name, device), count)
    for (device, code), count in pending.items():
        families["gpu_scheduler_pending_devices"].add_metric((name, device, code), count)
    families["gpu_scheduler_namespace_pending_pods"].add_metric((name,), pods)
    if pods:
        since_s = round(time_s - oldest_s, 3)
        families["gpu_scheduler_oldest_pending_timestamp_seconds"].add_metric((name,), since_s)


def _pending(one: NamespaceCapacity) -> dict[tuple[str, str], int]:
    found = {
        (device, code): count
        for code, amounts in one.waiting_codes.items()
        for device, count in amounts.items()
    }
    for device, count in one.waiting_devices.items():
        new = count - sum(amounts.get(device, 0) for amounts in one.waiting_codes.values())
        if new:
            found[device, NEW] = new
    return found


def _states(amount: DeviceAmount) -> tuple[tuple[str, int], ...]:
    rest = amount.total - amount.held - amount.free - amount.failed
    return (
        ("held", amount.held),
        ("free", amount.free),
        ("failed", amount.failed),
        ("unavailable", max(0, rest)),
    )
