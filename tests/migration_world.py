"""A cluster in which pods are migrated, without an API server: controllers, quotas, budgets, time.

Everything of the product is real (state, admission, decisions, migrations); its environment is
written by hand and does what the real one was seen to do in ``tests/controlplane``. A test may stop
it between any two actions, as a crash would.
"""

from __future__ import annotations

import msgspec

from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.migration.controller import MigrationController
from scheduler.controllers.migration.planner import PlannerSettings
from scheduler.decide.admission.admit import Rules, admit, reserve
from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.model.actions import Action, LookUpPod, RecordOwnerEvent, RecordPodEvent
from scheduler.model.crd.migration import Migration
from scheduler.model.crd.migration_actions import (
    CompleteMigration,
    CreateMigration,
    DeleteMigration,
    EvictPod,
    MigrationAction,
    ReadOwner,
)
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.crd.migration_result import MigrationResult
from scheduler.model.gpu.device import format_devices
from scheduler.model.mig.fallback_ladder import parse_ladder
from scheduler.model.node import Node
from scheduler.model.pods.pod import Condition, Owner, Pod
from scheduler.model.timestamps import epoch, rfc3339
from scheduler.report.containment import Containment
from scheduler.report.events.migration_events import MigrationEvents, Records
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.fold import fold
from scheduler.state.migration.history import Timings
from scheduler.state.node_info import over_committed
from scheduler.watch.inbox import Inbox
from tests.builders import pod
from tests.scheduler_world import SchedulerWorld
from tests.unit.loop.loop_world import Leader
from tests.workloads import Uncontained
from tests.workloads import Workload as Workload

START_S = epoch("2026-11-27T10:00:00Z") or 0.0
RULES = Rules(ladders=(parse_ladder("2g.20gb->1g.20gb->1g.10gb"),))
TIMINGS = Timings()


class World(SchedulerWorld):
    """The cluster and one scheduler in it."""

    def __init__(
        self,
        *nodes: Node,
        timings: Timings = TIMINGS,
        mode: str = "on",
        rules: Rules = RULES,
        contains: bool = False,
    ) -> None:
        super().__init__(pipeline=rules.pipeline, now=START_S)
        self.metrics = Metrics("gpu-scheduler")
        self.contain = Containment(self.metrics) if contains else Uncontained(self.metrics)
        self.nodes = {node.name: node for node in nodes}
        self.pods: dict[str, Pod] = {}
        self.stored: dict[str, Migration] = {}
        self.workloads: dict[str, Workload] = {}
        self.actions: list[MigrationAction] = []
        self.looked_up: list[Pod] = []
        self.writes: list[tuple[float, MigrationAction]] = []
        self.notes: list[tuple[str, str, str]] = []
        self.ended: dict[str, tuple[Migration, MigrationResult]] = {}
        self.settings = PlannerSettings(mode=mode, timings=timings, rules=rules)
        self.leader = Leader()
        self.is_silent = False
        self._number = 0
        self.restart()

    # --- the scheduler -----------------------------------------------------------------------

    def restart(self) -> None:
        """A new process: it knows only the state of the API server."""
        self.start_with(Cluster(well_known.SCHEDULER_NAME))
        self.actions.clear()
        gate = LeaderGate(self.leader, [], Inbox())
        gate.is_synced = True
        self.moves = MigrationController(
            self.state,
            self.settings,
            self._listener(),
            gate,
            self.contain,
            lambda: self.now,
            self._fresh,
        )
        self.deliver(ev.NodesReplaced(tuple(self.nodes.values())))
        self.deliver(ev.MigrationsReplaced(tuple(self.stored.values())))
        self.deliver(ev.PodsReplaced(tuple(self.pods.values())))

    def _listener(self) -> MigrationEvents:
        """Records results as events and by migration."""
        ended = self.ended

        class Listener(MigrationEvents):
            def ended(self, migration: Migration, result: MigrationResult, text: str) -> Records:
                ended.setdefault(migration.id, (migration, result))
                return super().ended(migration, result, text)

        return Listener(self.metrics)

    @property
    def results(self) -> list[tuple[str, str]]:
        """How migrations ended, as the metric counts them."""
        [family] = self.metrics.moves.collect()
        return [
            (one.labels["type"], one.labels["result"])
            for one in family.samples
            if one.name.endswith("_total")
            for _ in range(int(one.value))
        ]

    @property
    def open(self) -> dict[str, Migration]:
        """The open migrations."""
        return {name: one for name, one in self.stored.items() if one.end is None}

    def _fresh(self) -> str:
        self._number += 1
        return f"{self._number:08x}"

    def said(self, name: str, reason: str) -> list[str]:
        """The events about a pod or owner with a reason."""
        return [text for about, what, text in self.notes if (about, what) == (name, reason)]

    def deliver(self, *events: ev.Event) -> None:
        """What the watches and answers bring, in the loop's order."""
        for event in events:
            self.reservations.handle(event, self.now)
            effects = self.moves.handle(event, self.now)
            self.apply((*effects, *fold(self.cluster, event)))

    def run(self, action: Action) -> None:
        """Keep events of pods and owners, lookups, and the actions of migrations."""
        match action:
            case RecordPodEvent(pod, reason, text):
                self.notes.append((pod.name, reason, text))
            case RecordOwnerEvent(_, owner, reason, text):
                self.notes.append((owner.name, reason, text))
            case LookUpPod(pod):
                self.looked_up.append(pod)
            case _:
                assert isinstance(action, MigrationAction), action
                self.actions.append(action)

    def bound(self, placement: Placement) -> Pod:
        """The pod as it runs: with its devices and the time of its Binding."""
        waiting = self.pods[placement.pod.uid]
        given = {well_known.DEVICES: format_devices(placement.devices)}
        shown = msgspec.structs.replace(
            waiting,
            node_name=placement.node_name,
            phase="Running",
            condition=Condition("True", since=rfc3339(self.now)),
            annotations={**waiting.annotations, **given},
        )
        self.pods[shown.uid] = shown
        return shown

    # --- the API server ----------------------------------------------------------------------

    def show(self, shown: Pod) -> None:
        """A pod as it is from now on."""
        self.pods[shown.uid] = shown
        self.deliver(ev.PodUpdated(shown))

    def remove(self, uid: str) -> None:
        """A pod is gone."""
        if self.pods.pop(uid, None) is not None:
            self.deliver(ev.PodDeleted(uid))

    def create(self, asked: Pod, *, is_refused: bool = False) -> Pod | None:
        """Admit a pod, through the webhook's question; a quota may refuse it afterwards."""
        migration = self.moves.migration_for(asked)
        admission = admit(
            self.cluster,
            self.reservations,
            self.queue.lacking_one(),
            asked,
            "ours",
            self.settings.rules,
            now=self.now,
            move=migration.id if migration else None,
            avoided_tiers=self.moves.avoided_tiers(asked),
        )
        answer = admission.answer
        written = dict(asked.annotations)
        if admission.is_reserved:
            answer = reserve(self.reservations, admission, f"r-{self._fresh()}", self.now)
            written[well_known.RESERVATION] = answer.reservation or ""
        if answer.move:
            written[well_known.MIGRATION] = answer.move
        given = admission.granted.pod if admission.granted else asked
        if answer.rewrites:
            written |= _record(asked, given)
        if is_refused:
            return None
        self._number += 1
        made = msgspec.structs.replace(
            given, uid=f"u{self._number}", created=rfc3339(self.now), annotations=written
        )
        self.show(made)
        return made

    # --- controllers -------------------------------------------------------------------------

    def add(self, workload: Workload) -> Workload:
        """Create a workload and its pods."""
        self.workloads[workload.name] = workload
        self.settle()
        return workload

    def of(self, name: str) -> list[Pod]:
        """A workload's pods."""
        key = f"team/Deployment/{name}"
        return [one for one in self.pods.values() if one.workload == key]

    def control(self) -> None:
        """Deployments make what is missing and remove what is too much."""
        for one in self.workloads.values():
            mine = self.of(one.name)
            for old in [p for p in mine if p.revision != one.revision] + mine[one.replicas :]:
                self.remove(old.uid)
            if one.is_closed and self.now < one.tries_at:
                continue
            one.tries_at = self.now + one.backoff_s
            for _ in range(one.replicas - len(self.of(one.name))):
                self._number += 1
                asked = pod(
                    f"{one.name}-{self._number}",
                    uid="",
                    mig={one.tier: 1} if one.tier else {},
                    owner=f"Deployment/{one.name}@{one.revision}",
                    priority=one.priority,
                    annotations=one.annotations,
                    **one.fields,
                )
                if self.create(asked, is_refused=one.is_closed) is None:
                    break

    # --- actions -----------------------------------------------------------------------------

    def run_actions(self, count: int) -> None:
        """Run this many actions; until each is there, time passes, ten seconds at most."""
        for _ in range(count):
            for _ in range(10):
                self.control()
                self.decide_due()
                if self.actions:
                    break
                self.now += 1.0
                self.take_steps()
            if self.actions:
                self.run_one()

    def run_one(self) -> None:
        """Run the oldest action."""
        action = self.actions.pop(0)
        if not isinstance(action, ReadOwner):
            self.writes.append((self.now, action))
        match action:
            case ReadOwner():
                facts = None if self.is_silent else self._facts(action)
                self.deliver(ev.OwnerRead(action.pod_uid, action.migration_id, facts))
            case CreateMigration(migration):
                self._number += 1
                stored = msgspec.structs.replace(migration, uid=f"t{self._number}")
                self.stored[migration.id] = stored
                self.deliver(ev.MigrationUpdated(stored))
            case EvictPod(migration):
                self._evict(migration)
            case CompleteMigration(migration, end):
                if migration.id in self.stored:
                    self.stored[migration.id] = msgspec.structs.replace(migration, end=end)
                    self.deliver(ev.MigrationUpdated(self.stored[migration.id]))
            case DeleteMigration(migration):
                if self.stored.pop(migration.id, None) is not None:
                    self.deliver(ev.MigrationDeleted(migration.id))

    def _evict(self, migration: Migration) -> None:
        victim = self.pods.get(migration.pod_uid)
        if victim is None:
            self.deliver(ev.EvictionEnded(migration.id, ev.Eviction.GONE))
            return
        owner = self.workloads[victim.workload.rpartition("/")[2]]
        if victim.node_name and owner.allowed == 0:
            text = "Cannot evict pod as it would violate the pod's disruption budget."
            self.deliver(ev.EvictionEnded(migration.id, ev.Eviction.FORBIDDEN, text))
            return
        self.remove(victim.uid)  # the watch may well be faster than the answer
        self.deliver(ev.EvictionEnded(migration.id, ev.Eviction.EVICTED))

    def _facts(self, ask: ReadOwner) -> OwnerFacts:
        name = ask.owner.name.rpartition("-")[0]
        one = self.workloads.get(name)
        event_target = Owner("Deployment", name, f"Deployment-{name}")
        if one is None:
            return OwnerFacts(event_target=event_target, is_owner_gone=True)
        mine = self.of(name)
        others = sum(1 for p in mine if p.node_name and p.uid != ask.pod_uid)
        return OwnerFacts(
            event_target=event_target,
            grace_s=one.grace_s,
            replicas=one.replicas,
            is_outdated=ask.revision != one.revision,
            others_down=max(0, one.replicas - 1 - others),
            has_budget=one.allowed is not None,
            disruptions_allowed=1 if one.allowed is None else one.allowed,
        )

    # --- time --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everything happen that follows at once."""
        for _ in range(50):
            self.control()
            self.decide_due()
            if not self.actions:
                return
            self.run_one()
        raise AssertionError(f"it never settles: {self.actions}")

    def take_steps(self) -> None:
        """What the controller does once a second."""
        self.apply(self.moves.tick(self.now, leads=True))

    def tick(self, seconds: float = 1.0) -> None:
        """Time passes: the loop's second hand, and what follows from it."""
        self.now += seconds
        self.reservations.expire(self.now)
        self.queue.flush_unschedulable(self.now)
        self.take_steps()
        self.settle()

    def pass_time(self, seconds: float, step_s: float = 1.0) -> None:
        """Many ticks."""
        end = self.now + seconds
        while self.now < end:
            self.tick(step_s)

    def check(self) -> None:
        """What must never be: a slice held twice."""
        for name in self.nodes:
            node_info = self.cluster.at(name)
            assert node_info is not None, name
            assert over_committed(node_info) == {}, name

    def tiers(self, name: str) -> list[str]:
        """What a workload's placed pods have, sorted."""
        placed = [one for one in self.of(name) if one.node_name]
        return sorted(well_known.mig_profile(r) for one in placed for r in one.gpu_requests)

    def sent(self, kind: type[MigrationAction]) -> list[tuple[float, MigrationAction]]:
        """The actions of a kind that were run, with their times."""
        return [(at, one) for at, one in self.writes if isinstance(one, kind)]


def _record(asked: Pod, given: Pod) -> dict[str, str]:
    """What the webhook leaves on a pod whose tier it changed."""
    [before], [after] = asked.gpu_requests, given.gpu_requests
    original = {
        container.name: {"limits": {r: str(n) for r, n in container.devices.items()}}
        for container in asked.containers
        if container.devices
    }
    change = f"{well_known.mig_profile(before)}->{well_known.mig_profile(after)}"
    return {
        well_known.FALLBACK: change,
        well_known.ORIGINAL: msgspec.json.encode(original).decode(),
    }
