"""Answers ``GET /cost``: the shares of all GPUs now, by namespace, model, node and pod.

Like the devices (``capacity``) they are summed in parts, and the loop runs between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from fractions import Fraction
from typing import Protocol

from scheduler.model.cost.prices import PriceTable
from scheduler.model.dra.device import DeviceId
from scheduler.model.timestamps import micro_time
from scheduler.report.decisions.api_types import API_VERSION, Cost, GpuBill, GpuShare
from scheduler.report.decisions.capacity import SHARES_WEIGHT, CapacityContext, over_nodes
from scheduler.state.capacity.cost import (
    CostSummary,
    HeldCost,
    ModelCost,
    PriceKey,
    running_s,
    split,
)
from scheduler.state.capacity.gpu_pools import Idle
from scheduler.state.capacity.gpu_shares import NodeShares, shares_of
from scheduler.state.node_info import NodeInfo
from scheduler.state.parts import Parts
from scheduler.state.queue.position import in_slices


class Prices(Protocol):
    """The price table of the installation, and what is wrong with it."""

    problem: str

    def read(self) -> PriceTable:
        """The table as it is now."""


class NodeCosts:
    """The sums of one pass over the nodes; with the time in seconds since 1970 the pods' time
    counts, too. ``keep`` gets each node.
    """

    def __init__(
        self,
        context: CapacityContext,
        prices: PriceTable,
        now_s: int | None = None,
        keep: Callable[[NodeShares, PriceKey], None] = lambda _node, _key: None,
    ) -> None:
        self._context = context
        self._now_s = now_s
        self._keep = keep
        self._summary = CostSummary(prices)
        self._seen: set[DeviceId] = set()

    @property
    def currency(self) -> str:
        """The currency of the price table; empty without one."""
        return self._summary.prices.currency

    def add(self, node_info: NodeInfo) -> None:
        """Count the GPUs of a node, and of its pods."""
        one = shares_of(node_info, self._context.cluster.dra, self._seen)
        self._keep(one, self._summary.add_node(one, self._now_s))

    def finish(self) -> Parts[CostSummary]:
        """The sums, after all nodes."""
        for part in in_slices(list(self._context.queue.entries())):
            for entry in part:
                self._summary.add_waiting(entry.pod)
            yield len(part)
        return self._summary.finish()


class CostReport:
    """Sums the state of one process; ``wall`` is the wall clock."""

    def __init__(
        self,
        context: CapacityContext,
        prices: Prices,
        leads: Callable[[], bool],
        wall: Callable[[], datetime],
    ) -> None:
        self._context = context
        self._prices = prices
        self._leads = leads
        self._wall = wall

    def begin(self) -> NodeCosts:
        """The sums by namespace and model, without the time of the pods, for a pass over the
        nodes.
        """
        return NodeCosts(self._context, self._prices.read())

    def summary(self) -> Parts[CostSummary]:
        """The same in a pass of its own."""
        costs = self.begin()
        yield from over_nodes(self._context.cluster, costs.add, SHARES_WEIGHT)
        return (yield from costs.finish())

    def take(
        self, *, with_nodes: bool = False, with_pods: bool = False, label: str = ""
    ) -> Parts[Cost]:
        """The sums with the time of the pods, and on request each node and each pod with the value
        of this label.
        """
        wall = self._wall()
        now_s = int(wall.timestamp())
        nodes: list[tuple[NodeShares, PriceKey]] = []
        pods: list[GpuShare] = []
        count = 0

        def keep(one: NodeShares, key: PriceKey) -> None:
            nonlocal count
            count += 1
            if with_nodes and one.gpus:
                nodes.append((one, key))
            if with_pods:
                pods.extend(_pods_of(one, key, now_s, label))

        costs = NodeCosts(self._context, self._prices.read(), now_s, keep)
        yield from over_nodes(self._context.cluster, costs.add, SHARES_WEIGHT)
        summary = yield from costs.finish()
        bills: list[GpuBill] = []
        for part in in_slices(nodes):
            for one, key in part:
                bills.append(bill(key, _node(one, summary), one.node.name))
            yield len(part)
        return Cost(
            api_version=API_VERSION,
            leads=self._leads(),
            time=micro_time(wall),
            currency=summary.prices.currency,
            problem=self._prices.problem,
            nodes_total=count,
            models=tuple(bill(key, one) for key, one in sorted(summary.models.items(), key=_order)),
            namespaces=tuple(
                share(key, cell, namespace=namespace)
                for key, cells in summary.held.items()
                for namespace, cell in cells.items()
            ),
            nodes=tuple(bills),
            pods=tuple(pods),
        )


def _order(item: tuple[PriceKey, ModelCost]) -> tuple[str, Fraction]:
    (model, price), _ = item
    return model, price or Fraction(0)


def _pods_of(one: NodeShares, key: PriceKey, now_s: int, label: str) -> Iterator[GpuShare]:
    for held in one.held:
        cell = HeldCost()
        cell.add(held, running_s(held.pod, now_s))
        yield share(
            key,
            cell,
            namespace=held.namespace,
            pod=held.pod.name if held.pod is not None else "",
            node=one.node.name,
            label=held.pod.labels.get(label, "") if label and held.pod is not None else "",
        )


def _node(one: NodeShares, summary: CostSummary) -> ModelCost:
    idle = one.idle
    for gpu in one.cut:
        idle = idle.plus(split(gpu, summary.in_use))
    return ModelCost(one.gpus, sum((held.share for held in one.held), Fraction(0)), idle)


def bill(key: PriceKey, one: ModelCost, node: str = "") -> GpuBill:
    """The GPUs of a model as the API has them."""
    model, price = key
    idle: Idle = one.idle
    return GpuBill(
        model=model,
        price="" if price is None else str(price),
        node=node,
        gpus=one.gpus,
        held=str(one.held),
        free=str(idle.free),
        stranded=str(idle.stranded),
        failed=str(idle.failed),
        unavailable=str(idle.unavailable),
    )


def share(
    key: PriceKey,
    one: HeldCost,
    *,
    namespace: str,
    pod: str = "",
    node: str = "",
    label: str = "",
) -> GpuShare:
    """What a namespace or a pod holds, as the API has it."""
    model, price = key
    return GpuShare(
        namespace=namespace,
        model=model,
        price="" if price is None else str(price),
        pod=pod,
        node=node,
        label=label,
        pods=one.pods,
        gpus=str(one.gpus.value),
        degraded=str(one.degraded.value),
        saved=str(one.saved.value),
        gpu_seconds=str(one.gpu_seconds.value),
        degraded_seconds=str(one.degraded_seconds.value),
        saved_seconds=str(one.saved_seconds.value),
    )
