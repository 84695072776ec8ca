"""One scheduler without its loop: events go in, due pods are decided, Bindings succeed at once.

Tests of requeueing, admission, migrations and repartitioning extend it by their subject.
"""

from __future__ import annotations

from functools import partial

import msgspec

from scheduler.decide.requeue_check import condition_at_node
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.model.actions import Action
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.effects import Effects
from scheduler.state.fold import fold, notify_queue
from scheduler.state.queue.gang_queue import GangQueue
from scheduler.state.queue.requeue_conditions import requeue_condition
from scheduler.state.reservations import Reservations
from scheduler.state.scheduler_state import SchedulerState
from tests.builders import ALLOW_ALL_MAPS, as_bound, cluster


class SchedulerWorld:
    """Cluster state, queue and reservations on a clock that a test advances."""

    def __init__(
        self,
        *objects: Pod | Node | Namespace,
        pipeline: Pipeline = ALLOW_ALL_MAPS,
        now: float = 1000.0,
    ) -> None:
        self.pipeline = pipeline
        self.now = now
        self.decisions = 0
        self.start_with(cluster(*objects))

    def start_with(self, known: Cluster) -> None:
        """A new process: it knows this cluster and nothing else."""
        self.state = SchedulerState(known, GangQueue(known.gangs), Reservations())
        self.cluster, self.queue = self.state.cluster, self.state.queue
        self.reservations = self.state.reservations

    def deliver(self, *events: ev.Event) -> None:
        """Apply events of the watches in the order of the loop."""
        for event in events:
            self.reservations.handle(event, self.now)
            self.apply(tuple(fold(self.cluster, event)))

    def apply(self, effects: Effects) -> None:
        """Requeue what the changes could help, and run the actions."""
        asked = partial(condition_at_node, self.cluster, self.pipeline)
        for effect in effects:
            if isinstance(effect, ev.Change):
                notify_queue(self.queue, effect, self.now, asked, self.cluster.topology.concerns)
            else:
                self.run(effect)

    def run(self, action: Action) -> None:
        """Run an action of a controller; a world without controllers has none."""
        raise AssertionError(action)

    def decide_due(self) -> None:
        """Decide every pod that is due."""
        while (entry := self.queue.pop(self.now)) is not None:
            self.decisions += 1
            decision = schedule_one(self.cluster, entry.pod, self.pipeline)
            if isinstance(decision, Placement):
                self.queue.delete(entry.pod.uid, self.now)
                self.bind(decision)
                continue
            reason = requeue_condition(decision.diagnosis, decision.node_name)
            self.queue.add_unschedulable(entry, reason, self.now)
            self.rejected(decision)

    def rejected(self, rejection: Rejection) -> None:
        """A pod waits; a world without controllers preempts no pod for it."""

    def bind(self, placement: Placement) -> None:
        """The Binding succeeds, and the watch shows it."""
        assumption = Assumption(placement.node_name, placement.devices, placement.index)
        self.apply(tuple(self.cluster.assume(placement.pod, assumption)))
        self.deliver(ev.PodUpdated(self.bound(placement)))

    def bound(self, placement: Placement) -> Pod:
        """The pod as it is in the API after its Binding."""
        return as_bound(placement)

    def bind_elsewhere(self, shown: Pod, node_name: str) -> None:
        """Another scheduler binds a pod."""
        self.deliver(ev.PodUpdated(msgspec.structs.replace(shown, node_name=node_name)))
