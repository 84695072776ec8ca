"""Requests that wait for the next decision about a pod, with its state.

The state is taken at the moment of the decision, and only on request, so the decision can be
replayed exactly. A decision without a request costs one look-up in an empty dict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from scheduler.framework.decision import Decision
from scheduler.model.pods.pod import Pod
from scheduler.state.snapshot import ClusterSnapshot

WAITING_MAX = 8


class AwaitedDecision(msgspec.Struct, frozen=True):
    """A decision about ``pod``, and the state without that decision."""

    state: ClusterSnapshot
    pod: Pod
    decision: Decision
    id: str


class TooManyWait(Exception):
    """Too many requests wait for a decision."""


class DecisionWaiters:
    """The waiting requests by pod (``namespace/name``)."""

    def __init__(self) -> None:
        self.by_pod: dict[str, list[asyncio.Future[AwaitedDecision]]] = {}

    def __bool__(self) -> bool:
        return bool(self.by_pod)

    def __len__(self) -> int:
        return sum(map(len, self.by_pod.values()))

    async def next(self, key: str, timeout_s: float) -> AwaitedDecision:
        """The next decision about a pod; TimeoutError if there is none in time."""
        if len(self) >= WAITING_MAX:
            raise TooManyWait
        future: asyncio.Future[AwaitedDecision] = asyncio.get_running_loop().create_future()
        self.by_pod.setdefault(key, []).append(future)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        finally:
            self._leave(key, future)

    def catch(
        self, pod: Pod, decision: Decision, decision_id: str, state: Callable[[], ClusterSnapshot]
    ) -> None:
        """Answer the requests for this decision; the state does not contain it yet."""
        waiting = self.by_pod.pop(pod.key, None)
        if waiting is None:
            return
        caught = AwaitedDecision(state(), pod, decision, decision_id)
        for future in waiting:
            if not future.done():
                future.set_result(caught)

    def _leave(self, key: str, future: asyncio.Future[AwaitedDecision]) -> None:
        waiting = self.by_pod.get(key, [])
        if future in waiting:
            waiting.remove(future)
            if not waiting:
                del self.by_pod[key]
