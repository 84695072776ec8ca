"""GPUs on which cutting failed rest for a while, with growing pauses. Pure: time is an argument.

The same thought as ``state/breakers/node_circuit_breaker``, one GPU at a time, and with one failure
instead of several: an operator says no only for a reason, and there are other GPUs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.state.breakers.circuit import Timings

TIMINGS = Timings()


class GpuPause(msgspec.Struct):
    """How often cutting failed on a GPU, and until when nothing is asked of it."""

    failures: int
    until: float
    is_over: bool = False


class GpuBackoff:
    """The GPUs that rest, by node."""

    def __init__(self) -> None:
        self._rests: dict[tuple[str, int], GpuPause] = {}

    def resting(self, node_name: str) -> frozenset[int]:
        """The GPUs of a node that rest now."""
        return frozenset(
            gpu for (name, gpu), one in self._rests.items() if name == node_name and not one.is_over
        )

    def failed(self, node_name: str, gpus: Iterable[int], now: float) -> float:
        """Cutting failed there; the longest pause that follows."""
        pauses = [0.0]
        for gpu in gpus:
            known = self._rests.get((node_name, gpu))
            failures = known.failures if known is not None else 0
            pauses.append(min(TIMINGS.pause_max_s, TIMINGS.pause_first_s * 2 ** min(failures, 10)))
            self._rests[node_name, gpu] = GpuPause(failures + 1, now + pauses[-1])
        return max(pauses)

    def worked(self, node_name: str, gpus: Iterable[int]) -> None:
        """Cutting worked there: what was before is forgotten."""
        for gpu in gpus:
            self._rests.pop((node_name, gpu), None)

    def tick(self, now: float) -> list[str]:
        """Let time pass; the nodes with a pause that is over."""
        over: dict[str, None] = {}
        for (node_name, gpu), one in list(self._rests.items()):
            if not one.is_over and now >= one.until:
                one.is_over = True
                over[node_name] = None
            elif now - one.until >= TIMINGS.calm_s:
                del self._rests[node_name, gpu]
        return list(over)
