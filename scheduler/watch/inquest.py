"""Why did a pod that we had just bound vanish? One GET each, a few at a time.

Must never: keep anybody waiting, or grow. When too many vanish at once the rest stays unexplained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from scheduler.model.pod import Pod
from scheduler.state.event import PodRejected
from scheduler.watch.client import ApiError, Client, Unreachable

WORKERS = 4
WAITING_MAX = 256
#: What a kubelet says when it refuses a pod; anything else is the pod's own business.
REASONS = (
    "OutOf",
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "NodeShutdown",
)


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""


class _Failed(msgspec.Struct):
    metadata: _Meta
    status: _Status = _Status()


class Inquest:
    """Looks pods up that vanished; those that their node refused are reported to ``emit``."""

    def __init__(self, client: Client, emit: Callable[[PodRejected], None]) -> None:
        self._client = client
        self._emit = emit
        self._waiting: asyncio.Queue[Pod] = asyncio.Queue(WAITING_MAX)

    def look_up(self, pod: Pod) -> None:
        """Ask about a pod soon."""
        if not self._waiting.full():
            self._waiting.put_nowait(pod)

    async def run(self) -> None:
        """Ask for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"inquest {number}")

    async def _work(self) -> None:
        while True:
            pod = await self._waiting.get()
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
            try:
                content = await self._client.request("GET", path)
                found = msgspec.json.decode(content, type=_Failed)
            except (ApiError, Unreachable, msgspec.MsgspecError):
                continue  # deleted for good, or nobody knows
            status = found.status
            is_it = found.metadata.uid == pod.uid and status.phase == "Failed"
            if is_it and status.reason.startswith(REASONS):
                self._emit(PodRejected(pod.uid, status.reason, status.message))
