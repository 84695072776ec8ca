"""The page of the teams: which namespace holds, waits and has a smaller slice than it requested."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from scheduler.report.dashboard.pages.page import Shape
from scheduler.report.dashboard.pages.waiting_sums import WaitingSums
from scheduler.report.decisions.api_types import Capacity
from scheduler.report.wall_times import LoopTimes
from scheduler.state.capacity.cost import CostSummary
from scheduler.state.capacity.node_devices import Amounts
from scheduler.state.capacity.summary import NamespaceCapacity, QuotaUse

TEAMS_MAX: Final = 1_000


class TeamCost(Shape, frozen=True, kw_only=True):
    """What a namespace costs now, by the cost report.

    ``unpriced`` are GPUs without a price; ``saved_per_hour`` is what smaller tiers save.
    """

    per_hour: float
    currency: str
    gpus: float
    unpriced: float
    saved_per_hour: float


#: By namespace.
Costs = Mapping[str, TeamCost]
NO_COSTS: Final[Costs] = MappingProxyType({})


def team_costs(summary: CostSummary) -> Costs:
    """The costs by namespace."""
    return {
        one.namespace: TeamCost(
            per_hour=float(one.per_hour),
            currency=summary.prices.currency,
            gpus=float(one.gpus),
            unpriced=float(one.unpriced),
            saved_per_hour=float(one.saved_per_hour),
        )
        for one in summary.namespaces()
    }


class Team(Shape, frozen=True, kw_only=True):
    """One namespace.

    ``idle`` is not known to the scheduler, which does not see the use of a device; ``cost`` is
    null without a price table.
    """

    namespace: str
    pods: int
    held: Amounts
    quotas: tuple[QuotaUse, ...]
    waiting_pods: int
    waiting_devices: Amounts
    oldest: str | None
    degraded: Amounts
    idle: Amounts | None = None
    cost: TeamCost | None = None


class TeamsPage(Shape, frozen=True, kw_only=True):
    """The namespaces that hold or request devices, those with the most first."""

    teams: tuple[Team, ...]
    left_out: int


def teams_page(
    capacity: Capacity, sums: WaitingSums, times: LoopTimes, costs: Costs = NO_COSTS
) -> TeamsPage:
    """The page by a capacity."""
    found = [
        _team(one, sums, times, costs.get(one.namespace))
        for one in capacity.namespaces
        if one.devices or one.waiting_pods or one.degraded or one.quotas
    ]
    return TeamsPage(teams=tuple(found[:TEAMS_MAX]), left_out=max(0, len(found) - TEAMS_MAX))


def _team(
    one: NamespaceCapacity, sums: WaitingSums, times: LoopTimes, cost: TeamCost | None
) -> Team:
    waiting = sums.by_namespace.get(one.namespace)
    return Team(
        namespace=one.namespace,
        pods=one.pods,
        held=one.devices,
        quotas=one.quotas,
        waiting_pods=one.waiting_pods,
        waiting_devices=one.waiting_devices,
        oldest=None if waiting is None else times.at(waiting.since),
        degraded=one.degraded,
        cost=cost,
    )
