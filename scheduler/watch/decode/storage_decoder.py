"""The bytes of storage objects -> events, for any kind of them.

A claim or a volume that cannot be read is kept with the problem in ``unread``, so that a pod says
so; any other such object counts as one that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.volumes.storage import StorageObject
from scheduler.state import event as ev
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.unreadable import identity, problem_text


class VersionedMeta(Meta, frozen=True, rename="camel", kw_only=True):
    """ObjectMeta with the version, which is a precondition of our writes."""

    resource_version: str = ""


W = TypeVar("W")


class StorageDecoder:
    """Decodes one kind; ``bare`` makes what is kept of an object that cannot be read."""

    def __init__(
        self,
        kind: type[StorageObject],
        wire: type[W],
        convert: Callable[[W], StorageObject],
        bare: Callable[[str, str, str], StorageObject] | None = None,
    ) -> None:
        self._kind = kind
        self._decoder = msgspec.json.Decoder(wire)
        self._convert = convert
        self._bare = bare

    def event(self, content: bytes, is_gone: bool) -> ev.Event:
        """A line of the watch."""
        found = None if is_gone else self._read(content)
        if found is None:
            namespace, name, _ = identity(content)
            return ev.StorageDeleted(self._kind, f"{namespace}/{name}" if namespace else name)
        return ev.StorageUpdated(found)

    def listed(self, items: Iterable[msgspec.Raw]) -> ev.Event:
        """The whole list."""
        found = (self._read(bytes(item)) for item in items)
        return ev.StorageReplaced(self._kind, tuple(one for one in found if one is not None))

    def _read(self, content: bytes) -> StorageObject | None:
        try:
            return self._convert(self._decoder.decode(content))
        except UNREADABLE as problem:
            namespace, name, _ = identity(content)
            return (
                self._bare(namespace, name, problem_text(problem))
                if self._bare is not None
                else None
            )
