"""Our side on a real API server: the product's reflectors, and what each of them has seen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from scheduler.state.event import Event
from scheduler.watch.client import Client
from scheduler.watch.reflector import Reflector, WatchSource
from tests.differential.our_side import SOURCES, OurSide

PATIENCE_S: Final = 30.0


class HarnessError(Exception):
    """The run itself failed: there is no answer to compare."""


class _Condition(msgspec.Struct, frozen=True, rename="camel"):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """Names and versions of an object."""

    name: str
    uid: str
    resource_version: str
    namespace: str = ""
    deletion_timestamp: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    nominated_node_name: str = ""


class Seen(msgspec.Struct, frozen=True):
    """An object as a watch sent it last, as far as the run reads it."""

    metadata: Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def version(self) -> int:
        """Its resourceVersion as a number (comparable since Kubernetes 1.35)."""
        return int(self.metadata.resource_version)

    @property
    def unschedulable(self) -> str:
        """The message of kube-scheduler's rejection; empty where there is none."""
        return self._not_scheduled("Unschedulable")

    @property
    def error(self) -> str:
        """The error that ended kube-scheduler's attempt."""
        return self._not_scheduled("SchedulerError")

    def _not_scheduled(self, reason: str) -> str:
        for one in self.status.conditions:
            if (one.type, one.status, one.reason) == ("PodScheduled", "False", reason):
                return one.message
        return ""


_SEEN: Final = msgspec.json.Decoder(Seen)


class Mirror:
    """The cluster as our side sees it. One task writes it; others wait for it."""

    def __init__(self, client: Client, side: OurSide) -> None:
        self.side = side
        #: By kind, then by ``namespace/name``.
        self.objects: dict[str, dict[str, Seen]] = {kind: {} for kind in SOURCES}
        self.newest: dict[str, int] = dict.fromkeys(SOURCES, 0)
        self._problems: list[str] = []
        self._changed = asyncio.Event()
        self._reflectors = [
            Reflector(client, self._watched(one), self._emit, self._warn, random.Random(one.kind))
            for one in SOURCES.values()
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The watches run; at first their lists are awaited."""
        tasks = [asyncio.create_task(one.run(), name=one.kind) for one in self._reflectors]
        try:
            for one in self._reflectors:
                await asyncio.wait_for(one.is_synced.wait(), PATIENCE_S)
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self) -> None:
        """Let waiters look again: something else than an object changed."""
        self._changed.set()

    async def until(
        self, check: Callable[[], bool], what: str, patience_s: float = PATIENCE_S
    ) -> None:
        """Wait for a condition on what was seen."""
        try:
            async with asyncio.timeout(patience_s):
                while not check():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise HarnessError(f"waited {patience_s:g} s for {what} {self._problems}") from None

    async def has_version(self, kind: str, key: str, version: int) -> None:
        """Wait until an object was seen in this version or a newer one."""

        def check() -> bool:
            seen = self.objects[kind].get(key)
            return seen is not None and seen.version >= version

        await self.until(check, f"{kind} {key} in version {version}")

    async def lacks(self, kind: str, key: str) -> None:
        """Wait until an object is gone."""
        await self.until(lambda: key not in self.objects[kind], f"{kind} {key} to be gone")

    async def pod_until(
        self, key: str, check: Callable[[Seen], bool], patience_s: float = PATIENCE_S
    ) -> Seen:
        """Wait until a pod is as wanted."""
        pods = self.objects["pods"]

        def is_as_wanted() -> bool:
            return key in pods and check(pods[key])

        try:
            await self.until(is_as_wanted, f"the pod {key}", patience_s)
        except HarnessError as error:
            raise HarnessError(f"{error}; it is {pods.get(key)}") from None
        return pods[key]

    def _watched(self, source: WatchSource[Event]) -> WatchSource[Event]:
        """The source, with every object noted."""

        def decode(content: bytes, is_gone: bool) -> Event:
            self._note(source.kind, content, is_gone=is_gone)
            return source.decode(content, is_gone)

        def decode_list(items: list[msgspec.Raw]) -> Event:
            self.objects[source.kind].clear()
            for item in items:
                self._note(source.kind, bytes(item), is_gone=False)
            return source.decode_list(items)

        return msgspec.structs.replace(source, decode=decode, decode_list=decode_list)

    def _note(self, kind: str, content: bytes, *, is_gone: bool) -> None:
        seen = _SEEN.decode(content)
        meta = seen.metadata
        key = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        if is_gone:
            self.objects[kind].pop(key, None)
        else:
            self.objects[kind][key] = seen
        self.newest[kind] = max(self.newest[kind], seen.version)

    def _emit(self, event: Event) -> None:
        self.side.handle(event)
        self._changed.set()

    def _warn(self, kind: str, problem: str) -> None:
        self._problems.append(f"{kind}: {problem}")
