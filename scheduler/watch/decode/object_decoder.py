"""The bytes of objects of one kind -> events, for kinds that are folded as whole objects.

An object that cannot be read is kept with the problem in ``unread`` where its kind has that, so
that a pod says so; any other such object counts as one that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from scheduler.model.json_bounds import UNREADABLE
from scheduler.state import event as ev
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.unreadable import identity, problem_text


class VersionedMeta(Meta, frozen=True, rename="camel", kw_only=True):
    """ObjectMeta with the version, which is a precondition of our writes."""

    resource_version: str = ""


class ObjectEvents(NamedTuple):
    """The events of one group of kinds: of an object, of a deletion by kind and key, of a list."""

    updated: Callable[[Any], ev.Event]
    deleted: Callable[[Any, str], ev.Event]
    replaced: Callable[[Any, Any], ev.Event]


STORAGE = ObjectEvents(ev.StorageUpdated, ev.StorageDeleted, ev.StorageReplaced)
DRA = ObjectEvents(ev.DraUpdated, ev.DraDeleted, ev.DraReplaced)

T = TypeVar("T")
W = TypeVar("W")
#: Namespace, name and bytes of an object that cannot be read, and the problem -> what is kept.
Bare = Callable[[str, str, bytes, str], T]


class ObjectDecoder(Generic[T]):
    """Decodes one kind; ``bare`` makes what is kept of an object that cannot be read."""

    def __init__(
        self,
        events: ObjectEvents,
        kind: type[T],
        wire: type[W],
        convert: Callable[[W], T],
        bare: Bare[T] | None = None,
    ) -> None:
        self._events = events
        self._kind = kind
        self._decoder = msgspec.json.Decoder(wire)
        self._convert = convert
        self._bare = bare

    def event(self, content: bytes, is_gone: bool) -> ev.Event:
        """A line of the watch."""
        found = None if is_gone else self.read(content)
        if found is None:
            namespace, name, _ = identity(content)
            key = f"{namespace}/{name}" if namespace else name
            return self._events.deleted(self._kind, key)
        return self._events.updated(found)

    def listed(self, items: Iterable[msgspec.Raw]) -> ev.Event:
        """The whole list."""
        found = (self.read(bytes(item)) for item in items)
        return self._events.replaced(self._kind, tuple(one for one in found if one is not None))

    def decode(self, content: bytes) -> T:
        """An object; one of UNREADABLE if it cannot be read."""
        return self._convert(self._decoder.decode(content))

    def read(self, content: bytes) -> T | None:
        """An object; None if it cannot be read and its kind keeps nothing of it."""
        try:
            return self.decode(content)
        except UNREADABLE as problem:
            if self._bare is None:
                return None
            namespace, name, _ = identity(content)
            return self._bare(namespace, name, content, problem_text(problem))
