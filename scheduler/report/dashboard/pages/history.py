"""The devices held over the last day: one sample at an interval, in a ring of bounded size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from scheduler.report.dashboard.pages.page import Shape
from scheduler.state.capacity.node_devices import GPU, SHARED, DeviceAmount, is_slice

STEP_S: Final = 300
SAMPLES_MAX: Final = 24 * 3600 // STEP_S


class Sample(msgspec.Struct, frozen=True):
    """The devices at one time; ``at`` is in seconds since 1970."""

    at: int
    gpus: DeviceAmount
    slices: DeviceAmount
    waiting_pods: int


class Column(Shape, frozen=True, kw_only=True):
    """Amounts over time, oldest first."""

    total: tuple[int, ...]
    held: tuple[int, ...]
    free: tuple[int, ...]
    failed: tuple[int, ...]


class HistoryPart(Shape, frozen=True, kw_only=True):
    """Columns of equal length; ``slices`` are MIG instances and shared GPUs together."""

    step_s: int
    times: tuple[int, ...]
    gpus: Column
    slices: Column
    waiting_pods: tuple[int, ...]


class History:
    """The samples of the last day, in the memory of this process."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, at_s: float, devices: dict[str, DeviceAmount], waiting_pods: int) -> None:
        """Store a sample; one of the same second replaces the former."""
        gpus, slices = DeviceAmount(), DeviceAmount()
        for unit, amount in devices.items():
            if unit == GPU:
                gpus = gpus.plus(amount)
            elif unit == SHARED or is_slice(unit):
                slices = slices.plus(amount)
        if self._samples and self._samples[-1].at == int(at_s):
            self._samples.pop()
        self._samples.append(Sample(int(at_s), gpus, slices, waiting_pods))

    def columns(self) -> HistoryPart:
        """All samples, as a chart reads them."""
        samples = tuple(self._samples)
        return HistoryPart(
            step_s=STEP_S,
            times=tuple(one.at for one in samples),
            gpus=_column(samples, lambda one: one.gpus),
            slices=_column(samples, lambda one: one.slices),
            waiting_pods=tuple(one.waiting_pods for one in samples),
        )


def _column(samples: Iterable[Sample], of: Callable[[Sample], DeviceAmount]) -> Column:
    amounts = [of(one) for one in samples]
    return Column(
        total=tuple(one.total for one in amounts),
        held=tuple(one.held for one in amounts),
        free=tuple(one.free for one in amounts),
        failed=tuple(one.failed for one in amounts),
    )
