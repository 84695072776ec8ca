"""Teams from text: the document in the ConfigMap, and the annotations of Namespaces.

A document with a mistake is refused as a whole, with the path and the problem in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

from scheduler.model import well_known
from scheduler.model.limits import TEAM_AMOUNT_MAX, TEAMS_MAX
from scheduler.model.node import Namespace
from scheduler.model.teams.amount import MIB_PER_GB, SLICE, GpuAmount
from scheduler.model.teams.team import MIN_RUNTIME_S, Team, TeamTable

_Amount = Annotated[float, msgspec.Meta(ge=0, le=TEAM_AMOUNT_MAX)]
_Weight = Annotated[float, msgspec.Meta(ge=0.001, le=1000)]


class TeamsError(ValueError):
    """Teams that cannot be used; the message is one line with the path and the problem."""


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A section of the document."""


class GuaranteeAmounts(_Part, frozen=True):
    """What is guaranteed; nothing where it is not said."""

    slices: _Amount = 0
    gb: _Amount = 0


class LimitAmounts(_Part, frozen=True):
    """The most; no limit where it is not said."""

    slices: _Amount | None = None
    gb: _Amount | None = None


class TeamQuota(_Part, frozen=True):
    """The quota of one team."""

    guarantee: GuaranteeAmounts = GuaranteeAmounts()
    limit: LimitAmounts = LimitAmounts()
    weight: _Weight = 1.0


class TeamDocument(_Part, frozen=True):
    """The whole document."""

    teams: Annotated[dict[str, TeamQuota], msgspec.Meta(max_length=TEAMS_MAX)] = {}
    label: str = ""
    kueue: bool = True
    min_runtime_s: Annotated[float, msgspec.Meta(ge=0)] = MIN_RUNTIME_S


def parse_teams(text: str) -> TeamTable:
    """Read a document (YAML); TeamsError names the problem."""
    try:
        found = msgspec.yaml.decode(text or "{}", type=TeamDocument, strict=True)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise TeamsError(" ".join(str(error).split())) from error
    if "" in found.teams:
        raise TeamsError("$.teams: a team without a name")
    teams = {name: _team(name, quota, f"$.teams.{name}") for name, quota in found.teams.items()}
    return TeamTable(
        teams=teams, label=found.label, kueue=found.kueue, min_runtime_s=found.min_runtime_s
    )


def teams_of_namespaces(namespaces: Iterable[Namespace], former: Mapping[str, Team]) -> TeamTable:
    """A team for each Namespace with a guarantee or a limit; one that cannot be read keeps what it
    had in ``former``.
    """
    teams: dict[str, Team] = {}
    for namespace in namespaces:
        try:
            team = _team_of(namespace)
        except TeamsError:
            team = former.get(namespace.name)
        if team is not None and len(teams) < TEAMS_MAX:
            teams[team.name] = team
    return TeamTable(teams=teams)


def team_problem(namespace: Namespace) -> str:
    """Why the quota of a Namespace cannot be read; else empty."""
    try:
        _team_of(namespace)
    except TeamsError as error:
        return str(error)
    return ""


def quota_text(namespace: Namespace) -> tuple[str | None, ...]:
    """What a Namespace says about its quota."""
    return tuple(map(namespace.annotations.get, well_known.TEAM_ANNOTATIONS))


def _team_of(namespace: Namespace) -> Team | None:
    guarantee, limit, weight = quota_text(namespace)
    if guarantee is None and limit is None:
        return None
    quota: dict[str, object] = {
        "guarantee": _pairs(well_known.TEAM_GUARANTEE, guarantee),
        "limit": _pairs(well_known.TEAM_LIMIT, limit),
    }
    if weight is not None:
        quota["weight"] = weight
    try:
        found = msgspec.convert(quota, TeamQuota, strict=False)
    except msgspec.ValidationError as error:
        raise TeamsError(f"{well_known.PREFIX}team: {error}") from error
    return _team(namespace.name, found, well_known.PREFIX + "team")


def _pairs(key: str, text: str | None) -> dict[str, str]:
    """``slices=28,gb=320`` as a mapping."""
    found: dict[str, str] = {}
    for part in (text or "").replace(" ", "").split(","):
        name, sign, value = part.partition("=")
        if part and not (sign and value):
            raise TeamsError(f"{key}: {part[:20]!r} is no amount such as slices=28")
        if part:
            found[name] = value
    return found


def _team(name: str, quota: TeamQuota, path: str) -> Team:
    limit, guarantee = quota.limit, quota.guarantee
    for word, most, least in (
        ("slices", limit.slices, guarantee.slices),
        ("gb", limit.gb, guarantee.gb),
    ):
        if most is not None and most < least:
            raise TeamsError(
                f"{path}: the limit of {most:g} {word} is below the guarantee of {least:g}"
            )
    return Team(
        name=name,
        guarantee=GpuAmount(round(guarantee.slices * SLICE), round(guarantee.gb * MIB_PER_GB)),
        limit_slices=None if limit.slices is None else round(limit.slices * SLICE),
        limit_mib=None if limit.gb is None else round(limit.gb * MIB_PER_GB),
        weight=quota.weight,
    )


#: The key of the document in the ConfigMap.
DOCUMENT: Final = "teams.yaml"
