"""The decisions about the pods of one namespace, for readers with rights in that namespace only.

Only pods that exist are explained: a namespace of the same name may have had other owners. Many
readers share the process with the scheduling loop, so their decisions on the current state may take
one part in LIVE_SHARE of its time; beyond that an answer has the past decisions only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

import msgspec

from scheduler.decide.rejection_message import parts
from scheduler.model.decisions.messages import NamespaceAnswer, PodDecision
from scheduler.model.limits import DECISIONS_OF_A_NAMESPACE_MAX, DECISIONS_OF_A_POD_MAX
from scheduler.model.pods.pod import Pod
from scheduler.report.decisions.journal import DecisionContext, Journal, Record
from scheduler.report.decisions.pod_answers import PodAnswers
from scheduler.report.decisions.tenant_view import tenant_view

MESSAGE_MAX: Final = 1024
REASONS_MAX: Final = 3
LIVE_SHARE: Final = 20
#: The time that decisions on the current state may take at once, in seconds.
LIVE_BURST_S: Final = 1.0


class NamespaceDecisions:
    """Explains the pods of a namespace; ``clock`` is the loop's."""

    def __init__(
        self,
        context: DecisionContext,
        journal: Journal,
        pods: PodAnswers,
        clock: Callable[[], float],
        pods_max: int = DECISIONS_OF_A_NAMESPACE_MAX,
    ) -> None:
        self._context = context
        self._journal = journal
        self._pods = pods
        self._clock = clock
        self._pods_max = pods_max
        self._left_s = LIVE_BURST_S
        self._counted_at = clock()

    def one(self, namespace: str, name: str) -> NamespaceAnswer:
        """The explanation of one pod; no decision if it is unknown."""
        entry = self._pods.entry(namespace, name)
        pod = entry.pod if entry is not None else self._placed(namespace, name)
        if pod is None:
            return NamespaceAnswer()
        started = self._clock()
        answer = self._pods.about(
            namespace,
            name,
            DECISIONS_OF_A_POD_MAX,
            uid=pod.uid,
            decides=self._may_decide(started),
        )
        self._left_s -= self._clock() - started
        assert answer is not None, f"{pod.key} has an entry or a decision"
        records = self._journal.about(namespace, name)
        record = next((one for one in records if one.uid == pod.uid), None)
        content = msgspec.Raw(msgspec.json.encode(tenant_view(answer)))
        shown = _shown(pod, record, waits=entry is not None)
        return NamespaceAnswer(decisions=(msgspec.structs.replace(shown, answer=content),))

    def every(self, namespace: str) -> NamespaceAnswer:
        """The pods of a namespace with a decision, and those that wait, by name."""
        waiting = {
            entry.pod.uid: entry.pod
            for entry in self._context.queue.entries()
            if entry.pod.namespace == namespace
        }
        last = {
            record.uid: record
            for record in reversed([*self._journal.newest()])
            if record.namespace == namespace
        }
        pods = self._context.cluster.pods
        found = {uid: pods[uid] for uid in last if uid in pods and last[uid].placement is not None}
        every = sorted({**found, **waiting}.values(), key=lambda pod: (pod.name, pod.uid))
        shown = tuple(
            _shown(pod, last.get(pod.uid), waits=pod.uid in waiting)
            for pod in every[: self._pods_max]
        )
        return NamespaceAnswer(decisions=shown, left_out=len(every) - len(shown))

    def _placed(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name whose last decision is a placement, if it exists."""
        for record in self._journal.about(namespace, name):
            pod = self._context.cluster.pods.get(record.uid)
            if pod is not None and record.placement is not None:
                return pod
        return None

    def _may_decide(self, now: float) -> bool:
        earned = (now - self._counted_at) / LIVE_SHARE
        self._left_s = min(LIVE_BURST_S, self._left_s + earned)
        self._counted_at = now
        return self._left_s > 0


def _shown(pod: Pod, record: Record | None, *, waits: bool) -> PodDecision:
    placement = record.placement if record is not None and not waits else None
    message = record.message if record is not None and waits else ""
    return PodDecision(
        pod=pod.name,
        uid=pod.uid,
        state="Pending" if waits else "Scheduled",
        created=pod.created,
        reason=_reason(message),
        node=placement.node_name if placement is not None else "",
        message=message[:MESSAGE_MAX],
    )


def _reason(message: str) -> str:
    """The codes of a rejection, those of the most nodes first."""
    ordered = sorted(parts(message), key=lambda part: -part.count)
    codes = dict.fromkeys(part.code.name for part in ordered if part.code is not None)
    return ",".join(islice(codes, REASONS_MAX))
