"""What was read about teams."""

from __future__ import annotations

import msgspec

from scheduler.model.teams.team import TeamTable


class TeamsRead(msgspec.Struct, frozen=True):
    """The teams as they are configured now; None without any.

    With a ``problem`` the configuration cannot be used, and the former teams stay. ``name`` is that
    of the object.
    """

    table: TeamTable | None = None
    problem: str = ""
    name: str = ""
