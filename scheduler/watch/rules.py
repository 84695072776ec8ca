"""The bytes of ``migrules`` -> tickets. What cannot be read is no ticket, and the event says so."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model import migrule
from scheduler.model.reading import UNREADABLE
from scheduler.model.ticket import Ticket
from scheduler.state import event as ev
from scheduler.watch.salvage import said


def ticket_event(content: bytes, is_gone: bool) -> ev.Event:
    """A line of the tickets' watch; one that cannot be read stands for no ticket."""
    if is_gone:
        return ev.TicketVanished(migrule.name_in(content))
    found = _read(content)
    if isinstance(found, ev.Unread):
        return ev.TicketVanished(found.name, found)
    return ev.TicketSeen(found)


def tickets_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The list of tickets."""
    found = [_read(bytes(item)) for item in items]
    return ev.TicketsListed(
        tuple(one for one in found if isinstance(one, Ticket)),
        tuple(one for one in found if isinstance(one, ev.Unread)),
    )


def _read(content: bytes) -> Ticket | ev.Unread:
    try:
        return migrule.decode(content)
    except UNREADABLE as error:
        return ev.Unread(migrule.PLURAL, migrule.name_in(content), said(error))
