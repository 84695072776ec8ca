"""How many pods of each PodDisruptionBudget may be evicted, as pods start and end.

The disruption controller allows what is healthy beyond what is desired, and counts again whenever
a pod becomes ready or ends. The simulator's pods are ready as soon as they have a node.
"""

from __future__ import annotations

import msgspec

from gpuctl.api_lists import items_of
from gpuctl.simulate.engine import Simulator
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.pods.pod import Pod
from scheduler.state.event import BudgetsReplaced
from scheduler.state.snapshot import ClusterSnapshot
from scheduler.watch import informers
from scheduler.watch.client import ApiError, Client
from scheduler.watch.decode.api_types import Meta


class Health(msgspec.Struct, frozen=True, rename="camel"):
    """The pods of a budget that are ready, and those that have to be."""

    current_healthy: int = 0
    desired_healthy: int = 0


class _Budget(msgspec.Struct, frozen=True):
    metadata: Meta
    status: Health = Health()


async def read_budgets(
    client: Client,
) -> tuple[tuple[DisruptionBudget, ...], dict[str, Health]] | None:
    """Every budget, and its health by namespace and name; None without the right to list them.

    A leader without preemption does not know them.
    """
    try:
        items = await items_of(client, informers.BUDGETS)
        listed = informers.BUDGETS.decode_list(items)
        found = [msgspec.json.decode(item, type=_Budget) for item in items]
    except (ApiError, *UNREADABLE):
        return None
    assert isinstance(listed, BudgetsReplaced), "a list of budgets"
    health = {f"{one.metadata.namespace}/{one.metadata.name}": one.status for one in found}
    return listed.budgets, health


class Budgets:
    """The budgets of a state, counted on the simulator's pods."""

    def __init__(
        self, simulator: Simulator, state: ClusterSnapshot, health: dict[str, Health]
    ) -> None:
        self._simulator = simulator
        self._budgets = state.budgets
        placed = {one.pod.uid for one in state.assumed}
        self._running = [pod for pod in state.pods if pod.node_name or pod.uid in placed]
        self._health = health

    def refusal(self, pod: Pod) -> str:
        """Why the API server would refuse to evict the pod; empty if it would not."""
        found = [one for one in self._budgets if one.covers(pod)]
        if len(found) > 1:
            names = " and ".join(sorted(one.name for one in found))
            return f"more than one PodDisruptionBudget covers it ({names})"
        if found and self._allowed(found[0]) <= 0:
            return f"PodDisruptionBudget {found[0].name} allows no disruption"
        return ""

    def _allowed(self, budget: DisruptionBudget) -> int:
        running = self._simulator.running
        pods = self._simulator.cluster.pods.values()
        now = sum((p.namespace, p.name) in running and budget.covers(p) for p in pods)
        started = now - sum(map(budget.covers, self._running))
        known = self._health.get(f"{budget.namespace}/{budget.name}")
        if known is None:
            return budget.allowed + started
        return known.current_healthy - known.desired_healthy + started
