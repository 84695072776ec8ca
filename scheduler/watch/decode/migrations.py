"""Decodes ``podmigrations`` into migrations; an undecodable object is reported as unread."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model.crd import migration_codec
from scheduler.model.crd.migration import Migration
from scheduler.model.json_bounds import UNREADABLE
from scheduler.state import event as ev
from scheduler.watch.decode.unreadable import problem_text


def migration_event(content: bytes, is_gone: bool) -> ev.Event:
    """The event of a watch line; an undecodable object counts as deleted."""
    if is_gone:
        return ev.MigrationDeleted(migration_codec.name_in(content))
    found = _read(content)
    if isinstance(found, ev.ObjectUnreadable):
        return ev.MigrationDeleted(found.name, found)
    return ev.MigrationUpdated(found)


def migrations_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The event of a list."""
    found = [_read(bytes(item)) for item in items]
    return ev.MigrationsReplaced(
        tuple(one for one in found if isinstance(one, Migration)),
        tuple(one for one in found if isinstance(one, ev.ObjectUnreadable)),
    )


def _read(content: bytes) -> Migration | ev.ObjectUnreadable:
    try:
        return migration_codec.decode(content)
    except UNREADABLE as error:
        return ev.ObjectUnreadable(
            migration_codec.PLURAL, migration_codec.name_in(content), problem_text(error)
        )
