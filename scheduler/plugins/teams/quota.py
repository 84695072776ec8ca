"""Whether a team may use more, and the sentence with the numbers if not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.model.pods.pod import Pod
from scheduler.model.teams.amount import GpuAmount, gb_text, slices_text
from scheduler.model.teams.team import Team
from scheduler.state.teams.books import TeamBooks

#: Teams above their guarantee that a reason names.
SHOWN_MAX: Final = 3


def refusal(teams: TeamBooks, team: Team, pod: Pod, asked: GpuAmount) -> str:
    """Why the team may not use as much more; empty if it may."""
    if not asked:
        return ""
    after = teams.used(team.name).plus(asked)
    if _is_over(after.slices, team.limit_slices) or _is_over(after.mib, team.limit_mib):
        return _text(teams, team, asked, f"the limit is {_limit(team)}")
    if not pod.is_reclaimable and not after.fits_in(teams.guarantee(team)):
        return _text(teams, team, asked, "the pod runs only inside the guarantee")
    return ""


def _is_over(amount: int, limit: int | None) -> bool:
    return limit is not None and amount > limit


def _limit(team: Team) -> str:
    slices = [] if team.limit_slices is None else [slices_text(team.limit_slices)]
    memory = [] if team.limit_mib is None else [gb_text(team.limit_mib)]
    return " and ".join((*slices, *memory))


def _text(teams: TeamBooks, team: Team, asked: GpuAmount, why: str) -> str:
    borrowers = "".join(f"; {one}" for one in _borrowers(teams, team))
    return (
        f"quota of team {team.name} exceeded: {teams.used(team.name)} are used,"
        f" the pod asks for {asked} and {why}; guaranteed are {teams.guarantee(team)}{borrowers}"
    )


def _borrowers(teams: TeamBooks, team: Team) -> Iterator[str]:
    """Other teams above their guarantee, the one with the most slices first."""
    assert teams.table is not None, "there are no teams"
    others = (one for one in teams.table.teams.values() if one.name != team.name)
    above = [(one.name, amount) for one in others if (amount := teams.above(one))]
    above.sort(key=lambda one: (-one[1].slices, -one[1].mib, one[0]))
    for name, amount in above[:SHOWN_MAX]:
        yield f"team {name} has {amount} above its guarantee"
