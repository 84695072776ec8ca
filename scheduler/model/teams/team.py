"""Teams with their quotas: guarantee, limit and weight, and which namespaces are a team."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model.node import Namespace
from scheduler.model.teams.amount import NOTHING, GpuAmount

#: Seconds for which a pod runs at least before its room is reclaimed.
MIN_RUNTIME_S: Final = 300.0


class Team(msgspec.Struct, frozen=True, kw_only=True):
    """A team's quota: what is guaranteed, and the most that it may use (None: no limit).

    ``weight`` is its part of what is above all guarantees.
    """

    name: str
    guarantee: GpuAmount = NOTHING
    limit_slices: int | None = None
    limit_mib: int | None = None
    weight: float = 1.0


class TeamTable(msgspec.Struct, frozen=True, kw_only=True):
    """All teams by name.

    A team is the namespaces whose ``label`` has its name as the value; without a label key it is
    the namespace of that name. With ``kueue`` the quota leaves pods alone that Kueue started.
    """

    teams: dict[str, Team] = {}
    label: str = ""
    kueue: bool = True
    min_runtime_s: float = MIN_RUNTIME_S

    def name_of(self, namespace: Namespace) -> str:
        """The team of a namespace; empty for one that belongs to no team."""
        name = namespace.labels.get(self.label, "") if self.label else namespace.name
        return name if name in self.teams else ""
