"""Exponential backoff of GPUs after failed MIG partition requests. Pure: time is an argument.

This is similar to ``state/breakers/node_circuit_breaker``, per GPU, and one failure is enough: the
operator rejects a request only with a reason, and other GPUs may be free.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.state.breakers.circuit import Timings

TIMINGS = Timings()


class FailedGpu(msgspec.Struct):
    """The failed requests of a GPU, and the end of its backoff."""

    failures: int
    until: float
    is_over: bool = False


class GpuBackoff:
    """The GPUs in backoff, by node."""

    def __init__(self) -> None:
        self._failed: dict[tuple[str, int], FailedGpu] = {}

    def gpus_in_backoff(self, node_name: str) -> frozenset[int]:
        """The GPUs of a node that are in backoff."""
        return frozenset(
            gpu
            for (name, gpu), one in self._failed.items()
            if name == node_name and not one.is_over
        )

    def failed(self, node_name: str, gpus: Iterable[int], now: float) -> float:
        """A request failed on these GPUs; returns the longest backoff."""
        backoffs = [0.0]
        for gpu in gpus:
            known = self._failed.get((node_name, gpu))
            failures = known.failures if known is not None else 0
            backoffs.append(
                min(TIMINGS.pause_max_s, TIMINGS.pause_first_s * 2 ** min(failures, 10))
            )
            self._failed[node_name, gpu] = FailedGpu(failures + 1, now + backoffs[-1])
        return max(backoffs)

    def worked(self, node_name: str, gpus: Iterable[int]) -> None:
        """A request succeeded on these GPUs: reset their backoff."""
        for gpu in gpus:
            self._failed.pop((node_name, gpu), None)

    def tick(self, now: float) -> list[str]:
        """Advance the time; returns the nodes with an expired backoff."""
        over: dict[str, None] = {}
        for (node_name, gpu), one in list(self._failed.items()):
            if not one.is_over and now >= one.until:
                one.is_over = True
                over[node_name] = None
            elif now - one.until >= TIMINGS.calm_s:
                del self._failed[node_name, gpu]
        return list(over)
