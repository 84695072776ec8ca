"""The cost of all GPUs now: by namespace and model, and of what no pod holds.

Nodes are added one at a time, so that the caller can let other work run between them. Amounts are
exact: the shares of all namespaces and the idle parts add up to the bill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache

import msgspec

from scheduler.model.cost.prices import NO_PRICES, PriceTable
from scheduler.model.cost.share import ONE, ZERO, ShareSum, usable_share
from scheduler.model.mig.profile import is_profile
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch
from scheduler.model.well_known import mig_profile
from scheduler.state.capacity.gpu_pools import NOTHING_IDLE, CutGpu, HeldShare, Idle
from scheduler.state.capacity.gpu_shares import NodeShares

#: The model of a board and the price of one GPU per hour; None if it has no price.
PriceKey = tuple[str, Fraction | None]


class HeldCost:
    """What pods hold of the GPUs of one model and price: those of a namespace, or one pod.

    ``degraded`` is the part of ``gpus`` at a smaller tier than requested, ``saved`` what these pods
    would hold more with the tier that they requested. The seconds are GPU seconds of the same since
    the pods started.
    """

    def __init__(self) -> None:
        self.pods = 0
        self.gpus = ShareSum()
        self.degraded = ShareSum()
        self.saved = ShareSum()
        self.gpu_seconds = ShareSum()
        self.degraded_seconds = ShareSum()
        self.saved_seconds = ShareSum()

    def add(self, one: HeldShare, seconds: int) -> None:
        """Count a pod that runs since so many seconds, or a claim without a pod."""
        self.pods += one.pod is not None
        self.gpus.add(one.share)
        if seconds:
            self.gpu_seconds.add(one.share, seconds)
        if one.is_degraded:
            self.degraded.add(one.share)
            self.saved.add(one.saved)
            self.degraded_seconds.add(one.share, seconds)
            self.saved_seconds.add(one.saved, seconds)


class ModelCost(msgspec.Struct):
    """The GPUs of one model and price: ``gpus`` are billed, held or not."""

    gpus: int = 0
    held: Fraction = ZERO
    idle: Idle = NOTHING_IDLE


class NamespaceCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one namespace costs now; ``per_hour`` leaves out the ``unpriced`` GPUs."""

    namespace: str
    pods: int = 0
    gpus: Fraction = ZERO
    per_hour: Fraction = ZERO
    unpriced: Fraction = ZERO
    degraded: Fraction = ZERO
    saved: Fraction = ZERO
    saved_per_hour: Fraction = ZERO


class CostSummary:
    """Sums over nodes and waiting pods; complete after ``finish``."""

    def __init__(self, prices: PriceTable = NO_PRICES) -> None:
        self.prices = prices
        #: By model and price, then by namespace.
        self.held: dict[PriceKey, dict[str, HeldCost]] = {}
        self.models: dict[PriceKey, ModelCost] = {}
        self._cut: Counter[tuple[PriceKey, CutGpu]] = Counter()
        self._resources: set[str] = set()
        self.in_use: frozenset[str] = frozenset()

    def add_node(self, one: NodeShares, now_s: int | None = None) -> PriceKey:
        """Count the GPUs of a node, and of its pods; returns their model and price.

        With the time in seconds since 1970 the pods' time counts, too.
        """
        key = one.model, self.prices.of(one.model, one.node.labels)
        if not one.gpus:
            return key
        model = self.models.get(key)
        if model is None:
            model = self.models[key] = ModelCost()
            self.held[key] = {}
        model.gpus += one.gpus
        model.idle = model.idle.plus(one.idle)
        cells = self.held[key]
        for held in one.held:
            cell = cells.get(held.namespace)
            if cell is None:
                cell = cells[held.namespace] = HeldCost()
            cell.add(held, 0 if now_s is None else running_s(held.pod, now_s))
            if held.pod is not None:
                self._resources.update(held.pod.gpu_requests)
        for gpu in one.cut:
            self._cut[key, gpu] += 1
        return key

    def add_waiting(self, pod: Pod) -> None:
        """The profiles that a waiting pod requests are in use, too."""
        self._resources.update(pod.gpu_requests)

    def finish(self) -> CostSummary:
        """Split what is left of GPUs with MIG instances, once every profile in use is known."""
        placed = (name for _, gpu in self._cut for name, _ in gpu.layout)
        self.in_use = frozenset((*filter(is_profile, map(mig_profile, self._resources)), *placed))
        for key, cells in self.held.items():
            self.models[key].held = sum((one.gpus.value for one in cells.values()), ZERO)
        for (key, gpu), count in self._cut.items():
            one = split(gpu, self.in_use)
            model = self.models[key]
            model.idle = model.idle.plus(Idle(one.free * count, one.stranded * count))
        self._cut.clear()
        return self

    # --- reading -------------------------------------------------------------------------------

    def namespaces(self) -> tuple[NamespaceCost, ...]:
        """The most expensive first."""
        found: dict[str, NamespaceCost] = {}
        for (_, price), cells in self.held.items():
            for name, cell in cells.items():
                before = found.get(name) or NamespaceCost(namespace=name)
                found[name] = _with(before, cell, price)
        return tuple(
            sorted(found.values(), key=lambda one: (-one.per_hour, -one.gpus, one.namespace))
        )

    def idle(self) -> Idle:
        """The GPUs that no pod holds."""
        return _sum(one.idle for one in self.models.values())

    def idle_per_hour(self) -> Idle:
        """The same in money, without those that have no price."""
        return _sum(times(one.idle, price or ZERO) for (_, price), one in self.models.items())

    @property
    def gpus(self) -> int:
        """All GPUs."""
        return sum(one.gpus for one in self.models.values())

    @property
    def per_hour(self) -> Fraction:
        """The bill of all GPUs with a price."""
        return sum((one.gpus * (price or ZERO) for (_, price), one in self.models.items()), ZERO)


def _with(before: NamespaceCost, cell: HeldCost, price: Fraction | None) -> NamespaceCost:
    gpus, saved = cell.gpus.value, cell.saved.value
    return NamespaceCost(
        namespace=before.namespace,
        pods=before.pods + cell.pods,
        gpus=before.gpus + gpus,
        per_hour=before.per_hour + gpus * (price or ZERO),
        unpriced=before.unpriced + (gpus if price is None else ZERO),
        degraded=before.degraded + cell.degraded.value,
        saved=before.saved + saved,
        saved_per_hour=before.saved_per_hour + saved * (price or ZERO),
    )


def _sum(parts: Iterable[Idle]) -> Idle:
    total = NOTHING_IDLE
    for one in parts:
        total = total.plus(one)
    return total


def times(idle: Idle, price: Fraction) -> Idle:
    """Idle GPUs in money."""
    return Idle(
        idle.free * price, idle.stranded * price, idle.failed * price, idle.unavailable * price
    )


def split(gpu: CutGpu, profiles: frozenset[str]) -> Idle:
    """What is left of a GPU: free as far as profiles in use fit into it, else stranded."""
    free = min(gpu.idle, _usable(gpu, profiles))
    return Idle(free=free, stranded=gpu.idle - free)


@lru_cache(maxsize=4096)
def _usable(gpu: CutGpu, profiles: frozenset[str]) -> Fraction:
    return min(ONE, usable_share(gpu.gpu_model, gpu.layout, profiles))


def running_s(pod: Pod | None, now_s: int) -> int:
    """Whole seconds since a pod started; 0 if that is not known."""
    started = epoch(pod.started) if pod is not None else None
    return 0 if started is None else max(0, now_s - int(started))
