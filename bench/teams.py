"""``python -m bench.teams [SEED]``: fair shares of 20 teams over two simulated hours.

On the pure core. Each team wants a constant number of GPUs: a job that ends is submitted again.
After an hour the demand of some teams changes; a team that wants less deletes what waits. In the
last third of each hour no job ends, so the demand is steady. Entitled work that finds no room takes
back what others borrowed, as the scheduler decides it and ``controllers/preemption`` carries it
out; a victim ends after a grace time and waits again. The last line is JSON::

    {"fairness_error_points": ..., "evictions_steady": ..., "entitled_wait_max_s": ...}

``fairness_error_points`` is the mean over time of the largest difference between the share of a
team and what it is entitled to, in points of the cluster, from the settling time after each change
on; ``evictions_steady`` those after two minutes without an end of a job. Nothing reads a
clock.
"""

from __future__ import annotations

import heapq
import json
import random
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

import msgspec
import structlog

from scheduler.controllers.preemption import PreemptionController
from scheduler.decide.requeue_check import condition_at_node
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Preemption, Rejection
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.actions import PreemptPods
from scheduler.model.node import Node
from scheduler.model.pods.pod import Owner, Pod
from scheduler.model.teams.amount import MIB_PER_GB, NOTHING, SLICE, GpuAmount
from scheduler.model.teams.team import Team, TeamTable
from scheduler.plugins import default_pipeline
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from scheduler.state.effects import Effects
from scheduler.state.fold import fold, notify_queue
from scheduler.state.queue.requeue_conditions import requeue_condition
from scheduler.state.scheduler_state import empty_state
from scheduler.state.teams.awaited import awaited

HOUR_S: Final = 3600.0
GRACE_S: Final = 30.0
STEP_S: Final = 10.0
SETTLE_S: Final = 900.0
#: After so long without an end of a job no victim is on its way any more.
QUIET_S: Final = 120.0
#: In the rest of each hour no job ends: the demand is steady.
CHURN_S: Final = 2400.0
GPUS_OF_A_NODE: Final = 8
WHOLE: Final = GpuAmount(7 * SLICE, 80 * MIB_PER_GB)
PRODUCT: Final = "NVIDIA-A100-SXM4-80GB"


class Result(msgspec.Struct, frozen=True):
    """What the last line says."""

    fairness_error_points: float
    evictions_steady: int
    evictions: int
    entitled_wait_max_s: float
    decisions: int


class Simulation:
    """One cluster with teams, whose jobs are single pods of 1 to 4 GPUs."""

    def __init__(
        self,
        guarantees: Mapping[str, int | Fraction],
        nodes: int | Sequence[Node],
        seed: int,
        sizes: Sequence[int] = (1, 2, 4),
        priorities: Sequence[int] = (0,),
        *,
        jobs_end: bool = True,
        selectors: Sequence[Mapping[str, str]] = ({},),
    ) -> None:
        #: Whether jobs end by themselves; if not, the demand stays as it is.
        self.jobs_end = jobs_end
        self._rng = random.Random(seed)
        self._sizes, self._priorities, self._selectors = sizes, priorities, selectors
        pipeline = default_pipeline(Settings(preemption="own"))
        self._pipeline = pipeline
        state = empty_state(
            pipeline.scheduler_name,
            node_labels=pipeline.node_labels,
            equivalence_of=pipeline.equivalence_class,
        )
        self.cluster, self._queue = state.cluster, state.queue
        self._preemption = PreemptionController(self.cluster, Metrics(pipeline.scheduler_name))
        self.table = TeamTable(
            teams={
                name: Team(name=name, guarantee=WHOLE.times(count))
                for name, count in guarantees.items()
            },
            min_runtime_s=0,
        )
        self.now = 0.0
        self.evicted_at: list[float] = []
        self.taken_back: list[PreemptPods] = []
        #: How often a team took back more than it lacked.
        self.above_guarantee = 0
        self.entitled_wait_max_s = 0.0
        self.decisions = 0
        if isinstance(nodes, int):
            nodes = [node_of(f"n{number:03}") for number in range(nodes)]
        self.gpus = sum(node.allocatable[well_known.GPU] for node in nodes)
        self._demand: dict[str, int] = {}
        self._wanted: dict[str, int] = dict.fromkeys(guarantees, 0)
        #: When jobs end, in time of work, and when victims do.
        self._ends: list[tuple[float, str]] = []
        self._victim_ends: list[tuple[float, str]] = []
        self._worked = 0.0
        self._entitled_since: dict[str, float] = {}
        #: Pods that were rejected.
        self._waiting: dict[str, Pod] = {}
        self._number = 0
        self._apply(self.cluster.set_teams(self.table))
        for node in nodes:
            self._apply(fold(self.cluster, ev.NodeUpdated(node)))

    def set_demand(self, demand: Mapping[str, int]) -> None:
        """How many GPUs each team wants from now on: it deletes what waits above that, the newest
        first; jobs that run above that end by themselves.
        """
        self._demand = dict(demand)
        for pod in sorted(self._waiting.values(), key=lambda one: one.created, reverse=True):
            if self._wanted[pod.namespace] > self._demand[pod.namespace]:
                self._withdraw(pod)
        for name in demand:
            self._fill(name)

    def run(self, until: float) -> None:
        """Advance to a time."""
        while self.now < until:
            self.step()

    def step(self) -> None:
        """One step: jobs end, the queue is decided, and entitled work takes back what it lacks."""
        self.now += STEP_S
        self._worked += STEP_S if self.jobs_end else 0.0
        for ends, until in ((self._victim_ends, self.now), (self._ends, self._worked)):
            while ends and ends[0][0] <= until:
                self._end(heapq.heappop(ends)[1])
        self._carry_out(self._preemption.tick(self.now, leads=True))
        self._decide()
        entitled = self._entitled()
        for uid in self._entitled_since.keys() - {one.uid for one in entitled}:
            del self._entitled_since[uid]
        for pod in entitled:
            self._entitled_since.setdefault(pod.uid, self.now)

    def retry(self) -> None:
        """All that waits is decided again, as it is after some minutes without an event."""
        for pod in self._waiting.values():
            self._queue.activate(pod, self.now)

    def shares(self) -> dict[str, float]:
        """What each team uses, in GPUs."""
        teams = self.cluster.teams
        return {name: teams.used(name).slices / WHOLE.slices for name in self.table.teams}

    def fair(self) -> dict[str, float]:
        """What each team is entitled to: its guarantee as far as it wants it, and equal parts of
        the rest.
        """
        guarantee = {
            name: self.cluster.teams.guarantee(team).slices / WHOLE.slices
            for name, team in self.table.teams.items()
        }
        wanted = {name: float(self._demand.get(name, 0)) for name in guarantee}
        found = {name: min(guarantee[name], wanted[name]) for name in guarantee}
        rest = self.gpus - sum(found.values())
        while rest > 1e-9:
            open_teams = [name for name in found if wanted[name] - found[name] > 1e-9]
            if not open_teams:
                break
            part = min(rest / len(open_teams), *(wanted[one] - found[one] for one in open_teams))
            for name in open_teams:
                found[name] += part
            rest -= part * len(open_teams)
        return found

    def error_points(self) -> float:
        """The largest difference of a team, in points of the cluster."""
        fair, shares = self.fair(), self.shares()
        return max(abs(shares[name] - fair[name]) for name in fair) / self.gpus * 100

    def _fill(self, name: str) -> None:
        while (left := self._demand[name] - self._wanted[name]) > 0:
            size = self._rng.choice([one for one in self._sizes if one <= left] or [left])
            self._submit(name, size)

    def _submit(self, name: str, size: int) -> None:
        self._number += 1
        self._wanted[name] += size
        uid = f"{name}-{self._number:06}"
        pod = Pod(
            uid=uid,
            name=uid,
            namespace=name,
            created=f"{self._number:09}",
            scheduler_name=self._pipeline.scheduler_name,
            requests={well_known.GPU: size},
            priority=self._priorities[self._number % len(self._priorities)],
            node_selector=dict(self._selectors[self._number % len(self._selectors)]),
            owner=Owner(kind="ReplicaSet", name=name, uid=name),
        )
        self._apply(fold(self.cluster, ev.PodUpdated(pod)))

    def _end(self, uid: str) -> None:
        pod = self.cluster.pods.get(uid)
        if pod is None:
            return
        self._wanted[pod.namespace] -= pod.requests[well_known.GPU]
        self._fold(ev.PodDeleted(uid))
        self._fill(pod.namespace)

    def _withdraw(self, pod: Pod) -> None:
        """A team does not want a waiting job any more."""
        del self._waiting[pod.uid]
        self._wanted[pod.namespace] -= pod.requests[well_known.GPU]
        self._fold(ev.PodDeleted(pod.uid))

    def _decide(self) -> None:
        while (entry := self._queue.pop(self.now)) is not None:
            self.decisions += 1
            decision = schedule_one(self.cluster, entry.pod, self._pipeline)
            if isinstance(decision, Placement):
                self._queue.delete(entry.pod.uid, self.now)
                self._bind(decision)
                continue
            assert isinstance(decision, Rejection)
            if decision.nominated_node:  # as the loop does: it waits alone
                nominated = decision.nominated_node
                entry.pod = msgspec.structs.replace(entry.pod, nominated_node=nominated)
            condition = requeue_condition(decision.diagnosis, decision.node_name)
            self._queue.add_unschedulable(entry, condition, self.now)
            self._waiting[entry.pod.uid] = entry.pod
            if isinstance(decision, Preemption):
                self._carry_out(self._preemption.begin(decision, self.now))
            elif not decision.nominated_node:
                self._carry_out(self._preemption.give_up(entry.pod))

    def _carry_out(self, effects: Effects) -> None:
        for effect in effects:
            if isinstance(effect, PreemptPods):
                self._preempt(effect)
            elif isinstance(effect, ev.Change):
                self._apply((effect,))

    def _preempt(self, action: PreemptPods) -> None:
        """The API server takes the deletions; the victims end after the grace time."""
        if action.is_reclaim:
            self.taken_back.append(action)
            self._check(action.preemptor)
        for victim in action.victims:
            self.evicted_at.append(self.now)
            going = msgspec.structs.replace(victim, is_deleting=True, is_preempted=True)
            self._fold(ev.PodUpdated(going))
            heapq.heappush(self._victim_ends, (self.now + GRACE_S, victim.uid))
        results = tuple(ev.VictimResult(one, ev.VictimOutcome.DELETED) for one in action.victims)
        ended = ev.PreemptionEnded(action.preemptor, action.node_name, results)
        self._carry_out(self._preemption.handle(ended, self.now))

    def _check(self, preemptor: Pod) -> None:
        """With all that is nominated for it the team has to stay inside its guarantee."""
        teams, team = self.cluster.teams, self.table.teams[preemptor.namespace]
        nominated = self.cluster.nominated
        more = awaited(teams, team, nominated, (), preemptor.priority)
        self.above_guarantee += not teams.is_entitled(team, more)

    def _fold(self, event: ev.PodUpdated | ev.PodDeleted) -> None:
        self._apply(fold(self.cluster, event))
        self._carry_out(self._preemption.handle(event, self.now))

    def _bind(self, placement: Placement) -> None:
        pod = placement.pod
        self._waiting.pop(pod.uid, None)
        since = self._entitled_since.pop(pod.uid, self.now)
        self.entitled_wait_max_s = max(self.entitled_wait_max_s, self.now - since)
        assumption = Assumption(placement.node_name, placement.devices)
        self._apply(self.cluster.assume(pod, assumption))
        bound = msgspec.structs.replace(pod, node_name=placement.node_name)
        self._fold(ev.PodUpdated(bound))
        runs_s = self._rng.uniform(0.1, 0.5) * HOUR_S
        heapq.heappush(self._ends, (self._worked + runs_s, pod.uid))

    def _entitled(self) -> list[Pod]:
        """The oldest waiting work of each team, as far as all of it is inside the guarantee."""
        teams = self.cluster.teams
        asked = dict.fromkeys(self.table.teams, NOTHING)
        is_over: set[str] = set()
        found: list[Pod] = []
        for pod in sorted(self._waiting.values(), key=lambda one: one.created):
            name = pod.namespace
            if name in is_over:
                continue
            asked[name] = asked[name].plus(teams.least_asked(pod))
            if teams.is_entitled(self.table.teams[name], asked[name]):
                found.append(pod)
            else:
                is_over.add(name)
        return found

    def _apply(self, changes: Sequence[ev.Change]) -> None:
        def condition_at(pod: Pod, name: str) -> object:
            return condition_at_node(self.cluster, self._pipeline, pod, name)

        concerns = self.cluster.topology.concerns
        for change in changes:
            notify_queue(self._queue, change, self.now, condition_at, concerns)  # type: ignore[arg-type] # a closure


def node_of(name: str, product: str = PRODUCT) -> Node:
    labels = {well_known.GPU_PRODUCT: product}
    gpus = {well_known.GPU: GPUS_OF_A_NODE}
    return Node(
        name=name,
        uid=name,
        labels=labels,
        allocatable={**gpus, well_known.PODS: 110},
        capacity=gpus,
    )


def measure(seed: int = 1, teams: int = 20, nodes: int = 64) -> Result:
    """Two hours: uneven demand, and another one in the second hour."""
    rng = random.Random(seed)
    gpus = nodes * GPUS_OF_A_NODE
    names = [f"team-{number:02}" for number in range(teams)]
    guarantees = dict.fromkeys(names, gpus // teams)
    world = Simulation(guarantees, nodes, seed)
    errors: list[float] = []
    steady = 0
    for hour in range(2):
        demand = {name: int(guarantees[name] * rng.choice((0, 0.5, 1, 2, 4))) for name in names}
        world.set_demand(demand)
        begin = hour * HOUR_S
        while world.now < begin + HOUR_S:
            world.jobs_end = world.now < begin + CHURN_S
            world.step()
            if world.now >= begin + SETTLE_S:
                errors.append(world.error_points())
        steady += sum(
            1 for at in world.evicted_at if begin + CHURN_S + QUIET_S <= at <= begin + HOUR_S
        )
    return Result(
        fairness_error_points=round(sum(errors) / len(errors), 2),
        evictions_steady=steady,
        evictions=len(world.evicted_at),
        entitled_wait_max_s=world.entitled_wait_max_s,
        decisions=world.decisions,
    )


def main() -> int:
    """Print the result."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print(json.dumps(msgspec.to_builtins(measure(seed))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
