"""Carries preemptions out: from the decision to the end of its victims.

::

    decided --begin--> deletions sent --all answered--> the preemptor waits for the victims' end
                                        '--one failed--> it is decided again, after a backoff

The node is nominated for the preemptor at once: pods of lower or equal priority leave it that room.
A preemptor is never decided to preempt others while its own victims are being deleted.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from scheduler.framework.decision import Preemption
from scheduler.model.actions import PreemptPods, RecordPreempted
from scheduler.model.pods.pod import Pod
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import NOTHING, Effects

log = structlog.get_logger("preemption")

#: Takes a placement back whose Binding has not begun; None where it is too late for that.
Reject = Callable[[str, float], Effects | None]


class PreemptionController:
    """Preempts pods for those of one scheduler; ``rejects`` are asked about unbound victims."""

    name = "preemption"
    handles = (ev.PreemptionEnded, ev.PodUpdated, ev.PodDeleted)

    def __init__(
        self, cluster: Cluster, metrics: Metrics, rejects: tuple[Reject, ...] = ()
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._rejects = rejects

    def begin(self, preemption: Preemption, now: float) -> Effects:
        """Nominate the node, and let the victims go; a member of a gang may have none itself."""
        pod, node_name = preemption.pod, preemption.nominated_node
        if preemption.victims:
            log.info(
                "preempting pods",
                pod=pod.key,
                node=node_name,
                victims=[victim.key for victim in preemption.victims],
                violations=preemption.violations,
                reclaim=preemption.is_reclaim,
            )
        former = self._cluster.nominated.get(pod.uid)
        is_new = former is None or former.nominated_node != node_name
        effects = self._clear_weaker(pod, node_name) if is_new else NOTHING
        given = preemption.devices, preemption.claims
        effects += tuple(self._cluster.nominate(pod, node_name, *given))
        deleted: list[Pod] = []
        for victim in preemption.victims:
            if victim.is_deleting:
                continue  # it is on its way out already
            rejected = self._reject(victim, now)
            if rejected is None:
                deleted.append(victim)
            else:
                self._metrics.victims.labels("dropped").inc()
                effects += (*rejected, RecordPreempted(victim, pod, node_name))
        uids = frozenset(victim.uid for victim in deleted)
        if preemption.victims or not preemption.is_reclaim:
            self._cluster.preemptions.begin(pod.uid, uids, now)
        if deleted:
            effects += (PreemptPods(pod, node_name, tuple(deleted), preemption.is_reclaim),)
        return effects

    def give_up(self, pod: Pod) -> Effects:
        """No pod's end would help: the pod waits for no node, except for one that a migration
        holds for it."""
        if self._cluster.nominations.awaited(pod):
            return NOTHING
        return tuple(self._cluster.withdraw_nomination(pod.uid))

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Report the victims that go; forget preemptors that are placed or gone."""
        match event:
            case ev.PreemptionEnded():
                return self._ended(event)
            case ev.PodUpdated(pod) if pod.node_name:
                self._cluster.preemptions.forget(pod.uid)
            case ev.PodDeleted(uid):
                self._cluster.preemptions.forget(uid)
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Preemptors that waited long enough may preempt again."""
        preemptions = self._cluster.preemptions
        if not leads:
            preemptions.stop()
        pods = (self._cluster.pods.get(uid) for uid in preemptions.pass_time(now))
        return tuple(ev.PodActivated(pod) for pod in pods if pod is not None and self._waits(pod))

    def _ended(self, event: ev.PreemptionEnded) -> Effects:
        cluster, preemptor = self._cluster, event.preemptor
        cluster.preemptions.end(preemptor.uid)
        effects: Effects = ()
        problems: list[str] = []
        for result in event.results:
            self._metrics.victims.labels(result.outcome.value).inc()
            if result.outcome is ev.VictimOutcome.DELETED:
                effects += (RecordPreempted(result.pod, preemptor, event.node_name),)
            elif result.outcome in (ev.VictimOutcome.REFUSED, ev.VictimOutcome.UNREACHABLE):
                problems.append(f"{result.pod.key}: {result.message}")
        pod = cluster.pods.get(preemptor.uid)
        if pod is None or not self._waits(pod):
            return effects
        if problems:
            text = f"deleting {len(problems)} of {len(event.results)} victims: {problems[0]}"
            log.warning("preemption failed", pod=pod.key, problem=text)
            left = cluster.withdraw_nomination(pod.uid)
            failed = ev.BindFailed(pod, text, "preemption failed")
            return (*effects, ev.PodDone(pod.uid), failed, *left)
        if any(result.outcome is ev.VictimOutcome.UNSENT for result in event.results):
            left = cluster.withdraw_nomination(pod.uid)
            return (*effects, ev.PodActivated(pod), *left)
        if not any(result.pod.uid in cluster.pods for result in event.results):
            # Their end woke the pod while it was not to preempt; nothing else would.
            return (*effects, ev.PodActivated(pod))
        return effects

    def _waits(self, pod: Pod) -> bool:
        return pod.waits_for(self._cluster.scheduler_name) and pod.uid not in self._cluster.assumed

    def _clear_weaker(self, pod: Pod, node_name: str) -> Effects:
        """Weaker pods that wait for the node may not fit there any more: they are decided again."""
        weaker = [
            other
            for other in self._cluster.nominations.at(node_name)
            if other.priority < pod.priority
            and other.scheduler_name == self._cluster.scheduler_name
            and other.uid in self._cluster.pods
        ]
        effects: Effects = ()
        for other in weaker:
            left = self._cluster.withdraw_nomination(other.uid)
            effects += (ev.PodActivated(self._cluster.pods[other.uid]), *left)
        return effects

    def _reject(self, victim: Pod, now: float) -> Effects | None:
        """Take back the placement of a victim whose Binding has not begun."""
        if victim.uid not in self._cluster.assumed:
            return None
        answers = [reject(victim.uid, now) for reject in self._rejects]
        rejected = [answer for answer in answers if answer is not None]
        return tuple(effect for answer in rejected for effect in answer) if rejected else None
