"""The first page: whether there is room, and why pods wait."""

from __future__ import annotations

from typing import Final

from scheduler.model.gpu.board_name import board
from scheduler.report.dashboard.pages.history import HistoryPart
from scheduler.report.dashboard.pages.page import PodName, Shape, meaning
from scheduler.report.dashboard.pages.waiting import what_helps
from scheduler.report.dashboard.pages.waiting_sums import WaitingSums
from scheduler.report.decisions.api_types import Capacity
from scheduler.report.wall_times import LoopTimes
from scheduler.state.capacity.node_devices import Amounts, DeviceAmount
from scheduler.state.capacity.summary import ModelCapacity

REASONS_MAX: Final = 5


class NodeCounts(Shape, frozen=True, kw_only=True):
    """The nodes of the cluster; ``unavailable`` are those with devices that take no pod."""

    total: int
    with_devices: int
    unavailable: int


class Model(Shape, frozen=True, kw_only=True):
    """The devices of all nodes with one board, as in ``/capacity``."""

    product: str
    name: str
    memory_mib: int
    nodes: int
    devices: dict[str, DeviceAmount]
    fits: dict[str, int]
    largest: int
    largest_node: str
    largest_slice: str


class Waiting(Shape, frozen=True, kw_only=True):
    """All that waits, and since when."""

    pods: int
    devices: Amounts
    oldest: str | None
    oldest_pod: PodName | None


class Reason(Shape, frozen=True, kw_only=True):
    """A reason for which pods wait."""

    code: str
    meaning: str
    next_step: str
    pods: int
    devices: Amounts


class OverviewPage(Shape, frozen=True, kw_only=True):
    """The sums of the cluster; ``history`` are the last 24 hours of this leader."""

    nodes: NodeCounts
    devices: dict[str, DeviceAmount]
    models: tuple[Model, ...]
    waiting: Waiting
    reasons: tuple[Reason, ...]
    history: HistoryPart


def overview_page(
    capacity: Capacity, sums: WaitingSums, history: HistoryPart, times: LoopTimes
) -> OverviewPage:
    """The page by a capacity with its nodes."""
    every, oldest = sums.every, sums.every.oldest
    return OverviewPage(
        nodes=NodeCounts(
            total=capacity.nodes_total,
            with_devices=sum(1 for one in capacity.nodes if one.devices),
            unavailable=sum(1 for one in capacity.nodes if one.devices and one.problem),
        ),
        devices=all_devices(capacity),
        models=tuple(map(_model, capacity.models)),
        waiting=Waiting(
            pods=every.pods,
            devices=dict(sorted(every.devices.items())),
            oldest=None if oldest is None else times.at(oldest.since),
            oldest_pod=None
            if oldest is None
            else PodName(namespace=oldest.pod.namespace, pod=oldest.pod.name),
        ),
        reasons=tuple(
            Reason(
                code=code,
                meaning=meaning(code),
                next_step=what_helps(code),
                pods=one.pods,
                devices=dict(sorted(one.devices.items())),
            )
            for code, one in sums.codes()[:REASONS_MAX]
        ),
        history=history,
    )


def all_devices(capacity: Capacity) -> dict[str, DeviceAmount]:
    """The sums of all boards, by unit."""
    found: dict[str, DeviceAmount] = {}
    for model in capacity.models:
        for unit, amount in model.devices.items():
            found[unit] = found.get(unit, DeviceAmount()).plus(amount)
    return dict(sorted(found.items()))


def _model(one: ModelCapacity) -> Model:
    return Model(
        product=one.product,
        name=board(one.product, one.memory_mib),
        memory_mib=one.memory_mib,
        nodes=one.nodes,
        devices=one.devices,
        fits=one.fits,
        largest=one.largest,
        largest_node=one.largest_node,
        largest_slice=one.largest_slice,
    )
