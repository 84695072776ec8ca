"""Runs the scheduler's core on objects from files, in virtual time.

Each pod takes the same path as in a cluster::

    created -> admitted (scheduler.decide.admission.admit, webhook.mutate.pod_mutation)
            -> queued
            -> decided (scheduler.decide.schedule_one) -> assumed, or unschedulable with a reason

Pods are created one at a time and decided at once. Pending pods are retried at the end. This module
makes no decision of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

import msgspec

from gpuctl import likely_mistakes
from gpuctl.simulate import resource_quota, storage
from gpuctl.simulate.admission import Admission, Reviewed
from gpuctl.simulate.apiserver_defaults import with_requests
from gpuctl.simulate.claim_controller import ClaimController, waits_for_devices
from gpuctl.simulate.decode import to_pod
from gpuctl.simulate.limit_ranges import LimitRanges
from gpuctl.simulate.manifests import Document, Raw
from gpuctl.simulate.result import Verdict, granted_verdict, waiting_verdict
from gpuctl.simulate.validation.rejection import check_pod
from gpuctl.simulate.workload_expansion import PlannedPod
from scheduler.config import Config
from scheduler.decide.batch import next_batch, plan_batch
from scheduler.decide.gang.plan import plan_gang
from scheduler.decide.requeue_check import condition_at_node
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Preemption, Rejection
from scheduler.model import well_known
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.objects import DraObject
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.model.quota import Quota
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold, notify_queue
from scheduler.state.gangs.gang import Gang
from scheduler.state.queue.gang_queue import GangQueue
from scheduler.state.queue.requeue_conditions import requeue_condition
from scheduler.state.queue.scheduling_queue import UNSCHEDULABLE_MAX_S, QueuedPodInfo
from scheduler.state.teams.turns import TeamTurns

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
FOREIGN: Final = "placed by gpu-scheduler's rules; in a cluster {} decides"
NO_GPU: Final = "asks for no GPU"
STEP_S: Final = 1.0


class Simulator:
    """A cluster in memory, with admission, queue and decisions."""

    def __init__(self, config: Config) -> None:
        self.cluster = Cluster(
            config.scheduler_name,
            config.maps.allow,
            index_attributes=config.dra.index_attributes,
        )
        self.verdicts: dict[str, Verdict] = {}
        self.running: set[tuple[str, str]] = set()
        self.unknown_claims: set[str] = set()
        self.preempted: list[Pod] = []
        self.claims = ClaimController(self.cluster.dra)
        self._pipeline = config.pipeline()
        self._admission = Admission(config)
        self._reservations = self._admission.reservations
        self._queue = GangQueue(
            self.cluster.gangs,
            self._pipeline.equivalence_class,
            TeamTurns(self.cluster.teams, self.cluster.gangs),
        )
        self._ranges = LimitRanges()
        self._foreign: dict[str, Pod] = {}
        self._now = 0.0
        self._count = 0

    # --- existing objects --------------------------------------------------------------------

    def add_node(self, node: Node, now: float = 0.0) -> None:
        """Add a node; ``now`` (Unix time) gives its age."""
        self._fold(ev.NodeUpdated(node))
        self.cluster.pass_time(now)

    def add_namespace(self, namespace: Namespace) -> None:
        """Add a namespace with its labels and annotations."""
        self._fold(ev.NamespaceUpdated(namespace))

    def add_quota(self, quota: Quota) -> None:
        """Add a ResourceQuota; one that limits no GPUs is dropped."""
        self._fold(ev.QuotaUpdated(quota))

    def add_storage(self, event: ev.StorageUpdated) -> None:
        """Add a claim, a volume, a storage class or an object of a CSI driver."""
        self._fold(event)

    def add_dra_object(self, item: DraObject) -> None:
        """Add a ResourceSlice, DeviceTaintRule, DeviceClass or ResourceClaim."""
        self._fold(ev.DraUpdated(item))

    def add_limit_range(self, namespace: str, document: Document) -> None:
        """Add a LimitRange, which applies to pods created afterwards."""
        self._ranges.add(namespace, document)

    def add_event(self, event: ev.Event) -> None:
        """Add what a watch event says, other than of a pod."""
        self._fold(event)

    def add_existing(self, pod: Pod) -> None:
        """Add a pod that passed admission before: running or pending."""
        self._upsert_pod(pod)

    def end(self, pod: Pod) -> None:
        """A pod ends, and gives back what it holds."""
        self._apply(self._ended(pod))

    def _ended(self, pod: Pod) -> list[ev.Change]:
        released = self.claims.released(pod)
        self.running.discard((pod.namespace, pod.name))
        events = (ev.PodDeleted(pod.uid), *released)
        return [change for event in events for change in fold(self.cluster, event)]

    # --- creation ----------------------------------------------------------------------------

    def create(self, planned: PlannedPod, namespace: str, priority: int) -> str:
        """Create a pod and decide on it; returns the uid by which its verdict is found."""
        self._now += STEP_S
        self._count += 1
        raw = self._ranges.filled(_created(planned.raw, namespace, priority), namespace)
        asked = to_pod(raw, planned.document, planned.prefix)
        if planned.is_bare:
            check_pod(raw, planned.document)
        name = msgspec.structs.replace(asked, name=planned.name)
        resource_quota.count(self.cluster, namespace)
        reviewed = self._reviewed(planned, raw, asked)
        uid = f"pod-{self._count:06d}"
        created, denial = self._persisted(planned, reviewed.raw, uid), reviewed.outcome.denial
        problem = denial.message if denial else self._refusal(reviewed.raw, created)
        if problem is not None:
            reason = f"refused at admission: {problem}"
            self.verdicts[uid] = Verdict(
                pod=name, asked=asked.gpu_requests, reason=reason, is_refused=True
            )
            return uid
        notes = _notes(asked, self._pipeline.scheduler_name)
        self._upsert_pod(created, asked, (*reviewed.outcome.warnings, *reviewed.passed, *notes))
        self.decide_due()
        return uid

    def retry(self) -> bool:
        """Advance time until every unschedulable pod is retried; returns whether one was placed."""
        before = len(self.running)
        self._now += UNSCHEDULABLE_MAX_S
        self._queue.flush_unschedulable(self._now)
        self.decide_due()
        for pod in list(self._foreign.values()):
            self._place_foreign(pod)
        return len(self.running) > before

    def _reviewed(self, planned: PlannedPod, raw: Raw, asked: Pod) -> Reviewed:
        """The review, and a second one if LimitRanger adds defaults that the first removed."""
        first = self._review(raw, asked)
        refilled = self._ranges.filled(first.raw, asked.namespace)
        if first.outcome.denial or refilled == first.raw:
            return first
        second = self._review(refilled, to_pod(refilled, planned.document, planned.prefix))
        return second._replace(passed=(*first.outcome.warnings, *first.passed, *second.passed))

    def _review(self, raw: Raw, pod: Pod) -> Reviewed:
        waiting = self._queue.lacking_one()
        pod = storage.with_known_claims(self.cluster.volumes, pod)
        return self._admission.review(raw, pod, self.cluster, waiting, self._now, self._count)

    def _refusal(self, raw: Raw, pod: Pod) -> str | None:
        return self._ranges.refusal(raw, pod) or resource_quota.refusal(self.cluster, pod)

    def _persisted(self, planned: PlannedPod, raw: Raw, uid: str) -> Pod:
        meta = {
            **raw["metadata"],
            "uid": uid,
            "name": planned.name,
            "creationTimestamp": f"virtual-{self._count:09d}",
        }
        return to_pod({**raw, "metadata": meta}, planned.document, planned.prefix)

    # --- queue and decisions -----------------------------------------------------------------

    def _upsert_pod(self, pod: Pod, asked: Pod | None = None, warnings: Sequence[str] = ()) -> None:
        """Process the watch event of a new pod."""
        if pod.is_terminal:
            return
        self.unknown_claims.update(storage.unknown_claims(self.cluster.volumes, pod))
        pod = storage.with_known_claims(self.cluster.volumes, pod)
        pod, created = self.claims.with_created(pod)
        self._write(created)
        self._reservations.upsert_pod(pod)
        self._fold(ev.PodUpdated(pod))
        if pod.node_name:
            self.running.add((pod.namespace, pod.name))
        if pod.node_name or pod.is_deleting:
            return
        requests = (asked or pod).gpu_requests
        reason = GATED if pod.gates else ""
        self.verdicts[pod.uid] = Verdict(pod=pod, asked=requests, warnings=warnings, reason=reason)
        if pod.scheduler_name != self._pipeline.scheduler_name and not pod.gates:
            self._place_foreign(pod)

    def _fold(self, event: ev.Event) -> None:
        self._apply(fold(self.cluster, event))

    def _apply(self, changes: Iterable[ev.Change]) -> None:
        check = partial(condition_at_node, self.cluster, self._pipeline)
        for change in changes:
            notify_queue(self._queue, change, self._now, check, self.cluster.topology.concerns)

    def decide_due(self) -> None:
        """Decide on every pod that is due."""
        while entries := next_batch(self._queue, self.cluster, self._now):
            if (gang := self.cluster.gangs.of(entries[0].pod)) is not None:
                self._decide_gang(gang, entries[0])
                continue
            whole = plan_batch(self.cluster, [entry.pod for entry in entries], self._pipeline)
            for entry, joint in zip_longest(entries, whole or ()):
                decision = joint or schedule_one(self.cluster, entry.pod, self._pipeline)
                if isinstance(decision, Placement):
                    self._place(decision)
                else:
                    self._add_unschedulable(entry, decision)
                if isinstance(decision, Preemption):
                    self._preempt(decision)

    def _decide_gang(self, gang: Gang, leader: QueuedPodInfo) -> None:
        """All members that have to start together are placed, or none is."""
        members = self._queue.members(gang.key)
        pods = [one.pod for one in members]
        plan = plan_gang(self.cluster, gang, pods, self._pipeline)
        if isinstance(plan, Rejection):
            left = tuple(msgspec.structs.replace(plan, pod=pod) for pod in pods)
        else:
            left = plan.left
            placed = {one.pod.uid: one for one in plan.placements}
            for pod in pods:
                if pod.uid in placed:
                    self._place(placed[pod.uid])
        for rejection in left:
            if rejection.pod.uid == leader.pod.uid:
                self._add_unschedulable(leader, rejection)
            else:
                verdict = self.verdicts[rejection.pod.uid]
                self._record(waiting_verdict(verdict, rejection.diagnosis))

    def _place(self, placement: Placement) -> None:
        pod = placement.pod
        self._queue.delete(pod.uid, self._now)
        self._reservations.end(pod.uid)
        assumption = Assumption(
            placement.node_name,
            placement.devices,
            placement.index,
            placement.volumes,
            placement.claims,
        )
        self._apply(self.cluster.assume(pod, assumption))
        self._record(granted_verdict(self.verdicts[pod.uid], placement, *self._reserve(placement)))

    def _reserve(self, placement: Placement) -> list[str]:
        """Write the claims of a placed pod; what its Binding would wait for."""
        written = self.claims.reserved(placement)
        self._write(written)
        return list(waits_for_devices(written))

    def _write(self, claims: Iterable[ResourceClaim]) -> None:
        for claim in claims:
            self._fold(ev.DraUpdated(claim))

    def _add_unschedulable(self, entry: QueuedPodInfo, rejection: Rejection) -> None:
        diagnosis = rejection.diagnosis
        self._queue.add_unschedulable(
            entry, requeue_condition(diagnosis, rejection.node_name), self._now
        )
        self._record(waiting_verdict(self.verdicts[entry.pod.uid], diagnosis))
        if rejection.deallocates is not None:
            self._write([self.claims.deallocated(rejection.deallocates)])
            self._queue.activate(entry.pod, self._now)

    def _preempt(self, preemption: Preemption) -> None:
        """The victims end at once, and the pod is decided again.

        Other pods get what is left at the next ``retry``: in a cluster a victim needs longer to end
        than the preemptor's controller to create its next pods, which may be stronger than others.
        """
        pod = preemption.pod
        for victim in preemption.victims:
            changes = self._ended(victim)
            self._apply(one for one in changes if not isinstance(one, ev.ClusterEvent))
            self.preempted.append(victim)
            verdict = self.verdicts.get(victim.uid) or Verdict(
                pod=victim, asked=victim.gpu_requests
            )
            text = f"preempted on node {preemption.nominated_node} by {pod.key} (priority"
            self.verdicts[victim.uid] = msgspec.structs.replace(
                verdict,
                node=None,
                devices=None,
                cuda=None,
                granted={},
                codes=(),
                reason=f"{text} {pod.priority})",
            )
        self._queue.activate(pod, self._now)

    def _place_foreign(self, pod: Pod) -> None:
        """Place a pod of another scheduler to estimate the devices that it will hold."""
        plain = {key: text for key, text in pod.annotations.items() if key != well_known.MAP}
        candidate = msgspec.structs.replace(pod, unsupported=(), annotations=plain)
        decision = schedule_one(self.cluster, candidate, self._pipeline)
        verdict = self.verdicts[pod.uid]
        if isinstance(decision, Rejection):
            self._foreign[pod.uid] = pod
            verdict = waiting_verdict(verdict, decision.diagnosis)
        else:
            self._foreign.pop(pod.uid, None)
            notes = (FOREIGN.format(pod.scheduler_name), *self._reserve(decision))
            verdict = granted_verdict(verdict, decision, *notes)
            bound = msgspec.structs.replace(pod, node_name=decision.node_name)
            self._reservations.upsert_pod(bound)
            self._fold(ev.PodUpdated(bound))
        self._record(verdict)

    def _record(self, verdict: Verdict) -> None:
        self.verdicts[verdict.pod.uid] = verdict
        if verdict.node is not None:
            self.running.add((verdict.pod.namespace, verdict.pod.name))


def _created(raw: Raw, namespace: str, priority: int) -> Raw:
    """The pod in the state in which the API server passes it to the webhooks."""
    spec = {**with_requests(raw["spec"]), "priority": priority}
    return {**raw, "metadata": {**raw["metadata"], "namespace": namespace}, "spec": spec}


def _notes(asked: Pod, ours: str) -> tuple[str, ...]:
    """What the request of a new pod probably lacks."""
    if asked.scheduler_name != ours:
        return tuple(likely_mistakes.of_scheduler_name(asked.scheduler_name, ours))
    unlike = tuple(likely_mistakes.of_resources(asked))
    has_devices = any(map(well_known.is_extended_resource, asked.requests))
    says_more = {well_known.MAP, well_known.WANTED_MEMORY} & asked.annotations.keys()
    return unlike if has_devices or asked.resource_claims or says_more else (*unlike, NO_GPU)
