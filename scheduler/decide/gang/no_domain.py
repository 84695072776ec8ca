"""Why no domain of the level that a gang requires takes it: the largest ones, with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduler.decide.topology.choice import Choice
from scheduler.model.reasons.reason import Reason
from scheduler.plugins.topology.codes import NO_DOMAIN_FITS
from scheduler.plugins.topology.plugin import SHOWN_MAX, unknown_level
from scheduler.state.gangs.gang import Gang
from scheduler.state.topology.domain_paths import Path

#: Domains that are named in a reason.
NAMED_MAX: Final = 3


def why_no_domain(
    gang: Gang, choice: Choice, domains: Sequence[tuple[Path, int]], levels: tuple[str, ...]
) -> Reason:
    """The domains of the required level, with their room, and why each of them is too small."""
    assert gang.topology is not None
    key = gang.topology.required
    if not domains:
        return unknown_level(key, levels)
    rooms = [f"{_shown(path)} has room for {room}" for path, room in domains[:NAMED_MAX]]
    if len(domains) > NAMED_MAX:
        rest = len(domains) - NAMED_MAX
        rooms.append(f"{rest} more have room for at most {domains[NAMED_MAX][1]}")
    count = "the member" if gang.need == 1 else f"the {gang.need} members"
    have = "has" if gang.need == 1 else "have"
    together = f"{count} of group {gang.key.name} that {have} to be placed together"
    if gang.placed and choice.pinned:
        text = f"the domain of {key[:SHOWN_MAX]} where {len(gang.placed)} members are has no room"
        text = f"{text} for {together}: {'; '.join(rooms)}"
    else:
        text = f"no domain of {key[:SHOWN_MAX]} has room for {together}: {'; '.join(rooms)}"
    return Reason(code=NO_DOMAIN_FITS, text=text)


def _shown(path: Path) -> str:
    """The values down to a domain; an empty value is shown as such."""
    return "/".join("-" if value is None else value or '""' for value in path)
