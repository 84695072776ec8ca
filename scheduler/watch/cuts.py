"""The bytes of ``migcuts`` -> what operators say. What cannot be read says so in ``unread``.

An object that cannot be read counts as one without a word: whoever holds an instance of unknown
place then holds its whole node, which is the safe side.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model import migcut
from scheduler.model.cut import NodeCuts
from scheduler.model.reading import UNREADABLE
from scheduler.state import event as ev
from scheduler.watch.salvage import said


def cuts_event(content: bytes, is_gone: bool) -> ev.Event:
    """A line of the watch."""
    return ev.CutsVanished(migcut.name_in(content)) if is_gone else ev.CutsSeen(_read(content))


def cuts_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The whole list."""
    return ev.CutsListed(tuple(_read(bytes(item)) for item in items))


def _read(content: bytes) -> NodeCuts:
    try:
        return migcut.decode(content)
    except UNREADABLE as error:
        return NodeCuts(migcut.name_in(content), unread=said(error))
