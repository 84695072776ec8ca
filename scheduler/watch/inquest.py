"""Why did a pod vanish from the watch? One GET each, a few at a time, and one list at the start.

The watch shows no pods that ended. Two ends matter nevertheless: a kubelet that refused a pod that
we had just bound, and a container that failed for good on a smaller tier than its author asked for.
The first comes back as ``PodRejected``, the second as the pod in its last state.

Must never: keep anybody waiting, or grow. When too many vanish at once the rest stays unexplained.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from scheduler.model.original import is_degraded
from scheduler.model.pod import Pod
from scheduler.model.reading import UNREADABLE
from scheduler.state.event import PodRejected, PodSeen
from scheduler.watch.client import ApiError, Client, Unreachable
from scheduler.watch.objects import read_pod
from scheduler.watch.wire import ConditionWire, ContainerState

WORKERS = 4
WAITING_MAX = 256
#: At the start: pods in one answer, answers at most, and seconds before it is tried again.
PAGE = 500
PAGES_MAX = 20
RETRY_S = 5.0
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


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    deletion_timestamp: str | None = None


class _Container(msgspec.Struct, frozen=True):
    state: ContainerState = ContainerState()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[ConditionWire, ...] | None = None
    container_statuses: tuple[_Container, ...] | None = None
    init_container_statuses: tuple[_Container, ...] | None = None


class _Ended(msgspec.Struct, frozen=True):
    metadata: _Meta
    status: _Status = _Status()

    @property
    def is_crash(self) -> bool:
        """Whether a container failed by itself: nobody told the pod to end."""
        status = self.status
        if status.phase != "Failed" or status.reason or self.metadata.deletion_timestamp:
            return False
        told = ("DisruptionTarget", "True")
        if any((one.type, one.status) == told for one in status.conditions or ()):
            return False
        containers = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        ends = (one.state.terminated for one in containers)
        return any(end is not None and end.exit_code != 0 for end in ends)


class _ListMeta(msgspec.Struct, frozen=True):
    token: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


_ENDED = msgspec.json.Decoder(_Ended)
_PAGE = msgspec.json.Decoder(_Page)


class Inquest:
    """Looks up pods that vanished, and tells ``emit`` of those whose end matters."""

    def __init__(
        self, client: Client, scheduler_name: str, emit: Callable[[PodRejected | PodSeen], None]
    ) -> None:
        self._client = client
        self._scheduler_name = scheduler_name
        self._emit = emit
        self._waiting: asyncio.Queue[Pod] = asyncio.Queue(WAITING_MAX)
        self._asked: set[str] = set()

    def look_up(self, pod: Pod) -> None:
        """Ask about a pod soon, once for all who want to know."""
        if pod.uid not in self._asked and not self._waiting.full():
            self._asked.add(pod.uid)
            self._waiting.put_nowait(pod)

    async def run(self) -> None:
        """Ask for ever; ends by cancellation."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_back(), name="inquest of the past")
            for number in range(WORKERS):
                group.create_task(self._work(), name=f"inquest {number}")

    async def _work(self) -> None:
        while True:
            pod = await self._waiting.get()
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
            try:
                ended = _ENDED.decode(await self._client.request("GET", path))
            except (ApiError, Unreachable, *UNREADABLE):
                continue  # deleted for good, or nobody knows
            finally:
                self._asked.discard(pod.uid)
            status = ended.status
            if ended.metadata.uid != pod.uid or status.phase != "Failed":
                continue
            if status.reason.startswith(REASONS):
                self._emit(PodRejected(pod.uid, status.reason, status.message))
            elif ended.is_crash:
                self._emit(PodSeen(_crashed(pod)))

    # --- what ended while nobody of us was there ---------------------------------------------

    async def _look_back(self) -> None:
        """Pods that failed and are still there, such as a Job's."""
        token = ""
        for _ in range(PAGES_MAX):
            page = await self._page(token)
            for item in page.items or ():
                self._look_back_at(item)
            token = page.metadata.token
            if not token:
                return

    async def _page(self, token: str) -> _Page:
        selector = f"status.phase=Failed,spec.schedulerName={self._scheduler_name}"
        params = {"fieldSelector": selector, "limit": str(PAGE)}
        if token:
            params["continue"] = token
        while True:
            try:
                content = await self._client.request("GET", "/api/v1/pods", params=params)
                return _PAGE.decode(content)
            except ApiError as error:
                if error.status == 410:  # it took too long; what was seen has to do
                    return _Page()
            except (Unreachable, *UNREADABLE):
                pass
            await asyncio.sleep(RETRY_S)

    def _look_back_at(self, item: msgspec.Raw) -> None:
        try:
            if not _ENDED.decode(item).is_crash:
                return
            pod = read_pod(item)
        except UNREADABLE:
            return
        if is_degraded(pod):
            self._emit(PodSeen(_crashed(pod)))


def _crashed(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, phase="Failed", crashes=pod.crashes + 1)
