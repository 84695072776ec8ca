"""The bytes of ``migrules`` -> tickets. What cannot be read is skipped, and named in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import structlog

from scheduler.model import migrule
from scheduler.model.ticket import Ticket
from scheduler.state import event as ev

log = structlog.get_logger("moves")


def ticket_event(content: bytes, is_gone: bool) -> ev.Event:
    """A line of the tickets' watch; one that cannot be read stands for no ticket."""
    if not is_gone:
        for ticket in _read((content,)):
            return ev.TicketSeen(ticket)
    return ev.TicketVanished(migrule.name_in(content))


def tickets_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The list of tickets."""
    return ev.TicketsListed(tuple(_read(items)))


def _read(items: Iterable[bytes | msgspec.Raw]) -> Iterator[Ticket]:
    for item in items:
        try:
            yield migrule.decode(bytes(item))
        except msgspec.MsgspecError as error:
            log.warning(
                "a migrule cannot be read", rule=migrule.name_in(bytes(item)), problem=str(error)
            )
