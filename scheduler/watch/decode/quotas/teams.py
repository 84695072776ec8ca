"""The bytes of the ConfigMap with the teams -> teams. Without it there are none."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.teams.configuration import DOCUMENT, TeamsError, parse_teams
from scheduler.state import event as ev
from scheduler.watch.decode.api_types import Meta
from scheduler.watch.decode.unreadable import identity, problem_text


class ConfigMapWire(msgspec.Struct, frozen=True):
    """A ConfigMap as far as it is read."""

    metadata: Meta
    data: dict[str, str] | None = None


CONFIG_MAP = msgspec.json.Decoder(ConfigMapWire)


def teams_event(content: bytes, is_gone: bool) -> ev.Event:
    """A line of the watch."""
    return ev.TeamsRead() if is_gone else _read(content)


def teams_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The list, which has one object or none."""
    return next((_read(bytes(item)) for item in items), ev.TeamsRead())


def _read(content: bytes) -> ev.TeamsRead:
    namespace, name, _ = identity(content)
    about = f"{namespace}/{name}"
    try:
        data = CONFIG_MAP.decode(content).data or {}
    except UNREADABLE as problem:
        return ev.TeamsRead(problem=problem_text(problem), name=about)
    if DOCUMENT not in data:
        return ev.TeamsRead(problem=f"data has no key {DOCUMENT}", name=about)
    try:
        return ev.TeamsRead(parse_teams(data[DOCUMENT]), name=about)
    except TeamsError as problem:
        return ev.TeamsRead(problem=f"{DOCUMENT}: {problem}", name=about)
