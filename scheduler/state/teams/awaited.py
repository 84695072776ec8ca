"""What pods of a team are about to use: places are nominated for them, and they have none yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from scheduler.model.pods.pod import Pod
from scheduler.model.teams.amount import GpuAmount
from scheduler.model.teams.team import Team
from scheduler.state.teams.books import TeamBooks, total


def awaited(
    teams: TeamBooks,
    team: Team,
    nominated: Mapping[str, Pod],
    asking: Collection[str],
    priority: int,
) -> GpuAmount:
    """What is nominated for pods of a team of at least this priority, without those that ask: each
    counts with the devices of its nominated node.
    """
    return total(
        teams.asked(pod, teams.kind_at(pod.nominated_node))
        for uid, pod in nominated.items()
        if uid not in asking
        and pod.priority >= priority
        and (own := teams.team_of(pod.namespace)) is not None
        and own.name == team.name
    )
