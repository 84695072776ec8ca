"""The journal: the last decisions with everything needed to explain them.

Every decision passes through it, so it stores values and renders them on request only. It has two
limits: the number of entries, and the number of nodes with reasons in all entries, since in a large
cluster one rejection has thousands of lines. An old entry keeps its message.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec
import structlog

from scheduler.config import JournalSettings
from scheduler.decide.admission.admit import Admission
from scheduler.decide.explain import PreemptionOutcome, explain_preemption
from scheduler.decide.score_breakdown import Ranking, rank
from scheduler.framework.decision import Decision, Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis, sentence
from scheduler.report.decisions.waiters import DecisionWaiters
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import NodeInfo
from scheduler.state.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue
from scheduler.state.snapshot import ClusterSnapshot

ENTRIES_DEFAULT = JournalSettings().entries
ADMISSIONS_MAX = 1024
#: Maximum number of rejecting nodes in all entries together.
ROWS_MAX = 50_000
#: The search for runners-up may take one part in this many of the process's time.
RANKING_SHARE = 100
TEXT_MAX = 200
#: Nodes of one decision whose reasons against preemption are kept.
UNHELPFUL_MAX = 20

log = structlog.get_logger("scheduler")
_NO_POD = Pod(uid="", name="", namespace="")


class Record(msgspec.Struct, kw_only=True, gc=False):
    """One decision. ``placement`` has no pod in it; times are on the loop's clock, and ``took_s``
    is the time that deciding took.
    """

    number: int
    id: str
    at: float
    namespace: str
    name: str
    uid: str
    workload: str
    attempt: int
    generation: int
    reservation: str = ""
    fallback: str = ""
    placement: Placement | None = None
    ranking: Ranking | None = None
    message: str = ""
    diagnosis: Diagnosis | None = None
    preemption: PreemptionOutcome | None = None
    rows: int = 0
    took_s: float = 0.0
    end: str = ""
    problem: str = ""


class AdmissionRecord(msgspec.Struct, kw_only=True, gc=False):
    """One admission of a pod that takes part in fallback; the pod may not have a name yet."""

    at: float
    namespace: str
    name: str
    workload: str
    reservation: str
    result: str
    asked: tuple[str, ...]
    granted: tuple[str, ...] = ()
    tried: tuple[tuple[str, str], ...] = ()


class DecisionContext(Protocol):
    """The state on which a decision was made."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""

    @property
    def pipeline(self) -> Pipeline:
        """The scheduling profile."""

    @property
    def queue(self) -> SchedulingQueue:
        """The pending pods."""

    @property
    def generation(self) -> int:
        """The number of changes of the state."""

    def state(self) -> ClusterSnapshot:
        """The whole state as one value."""


class Journal:
    """The last decisions of one process; ``run`` makes their ids its own."""

    def __init__(
        self,
        clock: Callable[[], float],
        run: str = "local",
        entries: int = ENTRIES_DEFAULT,
    ) -> None:
        self._clock = clock
        self._run = run
        self._entries = entries
        self._ring: deque[Record] = deque()
        self._detailed: deque[Record] = deque()
        self._admissions: deque[AdmissionRecord] = deque(maxlen=ADMISSIONS_MAX)
        self.rows = 0
        self._rank_at = 0.0
        self.awaited = DecisionWaiters()
        self.written = 0

    def __len__(self) -> int:
        return len(self._ring)

    def record(
        self, entry: QueuedPodInfo, decision: Decision, context: DecisionContext, now: float
    ) -> Record:
        """Store a decision before the state contains it; ``add_ranking`` completes it later."""
        pod = entry.pod
        self.written += 1
        record = Record(
            number=self.written,
            id=f"{self._run}-{self.written}",
            at=now,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            workload=pod.workload,
            attempt=entry.attempts + 1,
            generation=context.generation,
            reservation=pod.annotations.get(well_known.RESERVATION, "")[:TEXT_MAX],
            fallback=pod.annotations.get(well_known.FALLBACK, "")[:TEXT_MAX],
        )
        if isinstance(decision, Placement):
            record.placement = msgspec.structs.replace(decision, pod=_NO_POD)
        else:
            record.message = sentence(decision.diagnosis)
            record.preemption = explain_preemption(decision, UNHELPFUL_MAX)
            self._detail(record, decision.diagnosis)
        if len(self._ring) >= self._entries and self._ring.popleft().diagnosis is not None:
            self._drop_detail()
        self._ring.append(record)
        if self.awaited.by_pod:
            self.awaited.catch(pod, decision, record.id, context.state)
        return record

    def may_rank(self) -> bool:
        """Whether the search for a runner-up is affordable now."""
        return self._clock() >= self._rank_at

    def add_ranking(
        self, record: Record, context: DecisionContext, placement: Placement, won: NodeInfo
    ) -> None:
        """Add the runner-up, after the Binding was sent.

        The state contains the placement and no later change; ``won`` is its node as it was before.
        """
        started = self._clock()
        try:
            record.ranking = rank(context.cluster, placement, context.pipeline, won)
        except Exception:  # the runner-up is informational; the decision is unaffected
            log.error("runner-up search failed", pod=placement.pod.key, exc_info=True)
        ended = self._clock()
        self._rank_at = ended + (ended - started) * (RANKING_SHARE - 1)

    def admitted(self, pod: Pod, admission: Admission, reservation: str, now: float) -> None:
        """Store the result of a pod's admission, and the reasons for not getting a better tier."""
        granted = admission.granted
        self._admissions.append(
            AdmissionRecord(
                at=now,
                namespace=pod.namespace,
                name=pod.name,
                workload=pod.workload,
                reservation=reservation,
                result=admission.result,
                asked=tuple(pod.gpu_requests),
                granted=tuple(granted.pod.gpu_requests) if granted else (),
                tried=tuple((" ".join(one.tiers), one.message) for one in admission.tried),
            )
        )

    # --- reading -------------------------------------------------------------------------

    def newest(self) -> Iterator[Record]:
        """Every stored decision, newest first."""
        return reversed(self._ring)

    def after(self, number: int) -> list[Record]:
        """Decisions with a higher number, oldest first."""
        if not self._ring or self._ring[-1].number <= number:
            return []
        skip = max(0, number + 1 - self._ring[0].number)
        return [self._ring[at] for at in range(skip, len(self._ring))]

    def about(self, namespace: str, name: str) -> list[Record]:
        """The decisions about one pod, newest first."""
        return [r for r in self.newest() if r.name == name and r.namespace == namespace]

    def admission_of(self, pod: Pod | Record) -> AdmissionRecord | None:
        """The admission of a pod: matched by its reservation, its name, or its owner's last one."""
        tag = (
            pod.reservation
            if isinstance(pod, Record)
            else pod.annotations.get(well_known.RESERVATION)
        )
        same = [one for one in reversed(self._admissions) if one.namespace == pod.namespace]
        for is_it in (
            lambda one: tag and one.reservation == tag,
            lambda one: one.name == pod.name,
            lambda one: not tag and one.workload == pod.workload,
        ):
            found = next(filter(is_it, same), None)
            if found is not None:
                return found
        return None

    # --- limits --------------------------------------------------------------------------

    def _detail(self, record: Record, diagnosis: Diagnosis) -> None:
        record.diagnosis = diagnosis
        last = self._detailed[-1].diagnosis if self._detailed else None
        # One rejection can hold for many pods; it is stored once and counted once.
        shared = last is not None and last.nodes is diagnosis.nodes
        record.rows = 0 if shared else len(diagnosis.nodes)
        self.rows += record.rows
        self._detailed.append(record)
        while self.rows > ROWS_MAX and len(self._detailed) > 1:
            self._drop_detail()

    def _drop_detail(self) -> None:
        old = self._detailed.popleft()
        heir = self._detailed[0] if self._detailed else None
        assert old.diagnosis is not None, f"{old.id} has no detail to drop"
        if (
            heir is not None
            and heir.diagnosis is not None
            and heir.diagnosis.nodes is (old.diagnosis.nodes)
        ):
            heir.rows = old.rows
        else:
            self.rows -= old.rows
        old.diagnosis, old.rows = None, 0
