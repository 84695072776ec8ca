"""The scheduler's core on objects from files: another shell around the same functions.

Each pod goes the way it goes in a cluster::

    created -> admitted (scheduler.decide.admission.admit, webhook.mutate.pod_mutation) -> waits in
    the queue
            -> decided (scheduler.decide.schedule_one) -> assumed, or parked with a reason

Pods come one by one and the scheduler keeps pace; those that wait are tried again at the end.
Nothing here decides: it only carries values between the parts, in virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

import msgspec

from gpuctl import resource_quota
from gpuctl.admission import Admission, Reviewed
from gpuctl.apiserver_defaults import with_requests
from gpuctl.decode import to_pod
from gpuctl.limit_ranges import LimitRanges
from gpuctl.manifests import Document, Raw
from gpuctl.simulation_result import Verdict, granted_verdict
from gpuctl.workload_expansion import Planned
from scheduler.config import Config
from scheduler.decide.batch import as_a_whole, due
from scheduler.decide.requeue_check import still_refuses
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Rejection
from scheduler.model import well_known
from scheduler.model.node import Namespace, Node
from scheduler.model.pod import Pod
from scheduler.model.quota import Quota
from scheduler.model.reason import sentence
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold, pass_on
from scheduler.state.queue.requeue_conditions import why
from scheduler.state.queue.scheduling_queue import PARKED_MAX_S, QueuedPodInfo, SchedulingQueue

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
FOREIGN: Final = "placed as gpu-scheduler would do it; in a cluster {} decides"
STEP_S: Final = 1.0


class Simulator:
    """One cluster of files."""

    def __init__(self, config: Config) -> None:
        self.cluster = Cluster(config.scheduler_name, config.maps.allow)
        self.verdicts: dict[str, Verdict] = {}
        self.running: set[tuple[str, str]] = set()
        self._pipeline = config.pipeline()
        self._admission = Admission(config)
        self._promises = self._admission.promises
        self._queue = SchedulingQueue(self._pipeline.equivalence_class)
        self._ranges = LimitRanges()
        self._foreign: dict[str, Pod] = {}
        self._now = 0.0
        self._count = 0

    # --- what is there already ---------------------------------------------------------------

    def add_node(self, node: Node, now: float = 0.0) -> None:
        """A node of the cluster, as old as it is at ``now`` (Unix time)."""
        self._fold(ev.NodeUpdated(node))
        self.cluster.pass_time(now)

    def add_namespace(self, namespace: Namespace) -> None:
        """A namespace with its labels and annotations."""
        self._fold(ev.NamespaceUpdated(namespace))

    def add_quota(self, quota: Quota) -> None:
        """A ResourceQuota; one that limits no GPUs is not kept."""
        self._fold(ev.QuotaUpdated(quota))

    def add_limit_range(self, namespace: str, document: Document) -> None:
        """A LimitRange; it says what pods get and may ask for that are created from now on."""
        self._ranges.add(namespace, document)

    def add_existing(self, pod: Pod) -> None:
        """A pod that passed admission before: it holds what it has, or waits."""
        self._see(pod)

    # --- what happens ------------------------------------------------------------------------

    def create(self, planned: Planned, namespace: str, priority: int) -> None:
        """Create one pod and decide about it."""
        self._now += STEP_S
        self._count += 1
        raw = self._ranges.filled(_created(planned.raw, namespace, priority), namespace)
        asked = to_pod(raw, planned.document, planned.prefix)
        name = msgspec.structs.replace(asked, name=planned.name)
        resource_quota.count(self.cluster, namespace)
        reviewed = self._reviewed(planned, raw, asked)
        uid = f"pod-{self._count:06d}"
        born, denial = self._born(planned, reviewed.raw, uid), reviewed.outcome.denial
        problem = denial.message if denial else self._refusal(reviewed.raw, born)
        if problem is not None:
            reason = f"refused at admission: {problem}"
            self.verdicts[uid] = Verdict(pod=name, asked=asked.gpu_requests, reason=reason)
            return
        self._see(born, asked, (*reviewed.outcome.warnings, *reviewed.passed))
        self.decide_due()

    def retry(self) -> bool:
        """Let enough time pass that every parked pod is tried again; whether one was placed."""
        before = len(self.running)
        self._now += PARKED_MAX_S
        self._queue.flush_unschedulable(self._now)
        self.decide_due()
        for pod in list(self._foreign.values()):
            self._place_foreign(pod)
        return len(self.running) > before

    def _reviewed(self, planned: Planned, raw: Raw, asked: Pod) -> Reviewed:
        """The review, and a second one where LimitRanger adds again what the first took away."""
        first = self._review(raw, asked)
        again = self._ranges.filled(first.raw, asked.namespace)
        if first.outcome.denial or again == first.raw:
            return first
        second = self._review(again, to_pod(again, planned.document, planned.prefix))
        return second._replace(passed=(*first.outcome.warnings, *first.passed, *second.passed))

    def _review(self, raw: Raw, pod: Pod) -> Reviewed:
        waiting = self._queue.lacking_one()
        return self._admission.review(raw, pod, self.cluster, waiting, self._now, self._count)

    def _refusal(self, raw: Raw, pod: Pod) -> str | None:
        return self._ranges.refusal(raw, pod) or resource_quota.refusal(self.cluster, pod)

    def _born(self, planned: Planned, raw: Raw, uid: str) -> Pod:
        meta = {
            **raw["metadata"],
            "uid": uid,
            "name": planned.name,
            "creationTimestamp": f"virtual-{self._count:09d}",
        }
        return to_pod({**raw, "metadata": meta}, planned.document, planned.prefix)

    # --- queue and decisions -----------------------------------------------------------------

    def _see(self, pod: Pod, asked: Pod | None = None, warnings: Sequence[str] = ()) -> None:
        """The watch shows a pod."""
        if pod.is_terminal:
            return
        self._promises.upsert_pod(pod)
        self._fold(ev.PodUpdated(pod))
        if pod.node_name:
            self.running.add((pod.namespace, pod.name))
        if pod.node_name or pod.is_deleting:
            return
        wish = (asked or pod).gpu_requests
        reason = GATED if pod.gates else ""
        self.verdicts[pod.uid] = Verdict(pod=pod, asked=wish, warnings=warnings, reason=reason)
        if pod.scheduler_name != self._pipeline.scheduler_name and not pod.gates:
            self._place_foreign(pod)

    def _fold(self, event: ev.Event) -> None:
        asked = partial(still_refuses, self.cluster, self._pipeline)
        for change in fold(self.cluster, event):
            pass_on(self._queue, change, self._now, asked)

    def decide_due(self) -> None:
        """Decide about every pod whose turn it is."""
        while entries := due(self._queue, self.cluster, self._now):
            whole = as_a_whole(self.cluster, [entry.pod for entry in entries], self._pipeline)
            for entry, found in zip_longest(entries, whole or ()):
                decision = found or schedule_one(self.cluster, entry.pod, self._pipeline)
                if isinstance(decision, Placement):
                    self._place(decision)
                else:
                    self._park(entry, decision)

    def _place(self, placement: Placement) -> None:
        pod = placement.pod
        self._queue.delete(pod.uid, self._now)
        self._promises.end(pod.uid)
        assumption = Assumption(placement.node_name, placement.devices, placement.index)
        self.cluster.assume(pod, assumption)
        self._record(granted_verdict(self.verdicts[pod.uid], placement))

    def _park(self, entry: QueuedPodInfo, rejection: Rejection) -> None:
        diagnosis = rejection.diagnosis
        self._queue.add_unschedulable(entry, why(diagnosis, rejection.node_name), self._now)
        verdict = self.verdicts[entry.pod.uid]
        self._record(msgspec.structs.replace(verdict, reason=sentence(diagnosis)))

    def _place_foreign(self, pod: Pod) -> None:
        """A pod of another scheduler: we only need to know what it will probably hold."""
        plain = {key: text for key, text in pod.annotations.items() if key != well_known.MAP}
        candidate = msgspec.structs.replace(pod, unsupported=(), annotations=plain)
        decision = schedule_one(self.cluster, candidate, self._pipeline)
        verdict = self.verdicts[pod.uid]
        if isinstance(decision, Rejection):
            self._foreign[pod.uid] = pod
            verdict = msgspec.structs.replace(verdict, reason=sentence(decision.diagnosis))
        else:
            self._foreign.pop(pod.uid, None)
            verdict = granted_verdict(verdict, decision, FOREIGN.format(pod.scheduler_name))
            bound = msgspec.structs.replace(pod, node_name=decision.node_name)
            self._promises.upsert_pod(bound)
            self._fold(ev.PodUpdated(bound))
        self._record(verdict)

    def _record(self, verdict: Verdict) -> None:
        self.verdicts[verdict.pod.uid] = verdict
        if verdict.node is not None:
            self.running.add((verdict.pod.namespace, verdict.pod.name))


def _created(raw: Raw, namespace: str, priority: int) -> Raw:
    """The pod as the API server hands it to the webhooks."""
    spec = {**with_requests(raw["spec"]), "priority": priority}
    return {**raw, "metadata": {**raw["metadata"], "namespace": namespace}, "spec": spec}
