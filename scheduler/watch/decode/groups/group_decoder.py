"""The bytes of objects that define gangs -> events.

An object that cannot be read counts as one that does not exist: its pods wait and say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.limits import GANG_MEMBERS_MAX
from scheduler.model.pods.gang import GangSource, PodGroup
from scheduler.state import event as ev
from scheduler.watch.decode.unreadable import identity


class GroupDecoder:
    """Decodes the objects of one source; ``read`` raises an error of ``UNREADABLE``."""

    def __init__(self, source: GangSource, read: Callable[[bytes], PodGroup]) -> None:
        self._source = source.value
        #: An object as it is; of a file its errors are told.
        self.decode = read

    def event(self, content: bytes, is_gone: bool) -> ev.Event:
        """A line of the watch."""
        group = None if is_gone else self._group(content)
        if group is None:
            namespace, name, _ = identity(content)
            return ev.PodGroupDeleted(namespace, name, self._source)
        return ev.PodGroupUpdated(group)

    def listed(self, items: Iterable[msgspec.Raw]) -> ev.Event:
        """The whole list."""
        return ev.PodGroupsReplaced(tuple(self._readable(items)), source=self._source)

    def absent(self) -> ev.Event:
        """The cluster lacks the kind."""
        return ev.PodGroupsReplaced((), is_served=False, source=self._source)

    def _readable(self, items: Iterable[msgspec.Raw]) -> Iterator[PodGroup]:
        for item in items:
            if (group := self._group(bytes(item))) is not None:
                yield group

    def _group(self, content: bytes) -> PodGroup | None:
        try:
            group = self.decode(content)
        except UNREADABLE:
            return None
        return None if (group.minimum or 0) > GANG_MEMBERS_MAX else group
