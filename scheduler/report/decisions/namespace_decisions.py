"""The decisions about the pods of one namespace, for readers with rights in that namespace only.

Only pods that exist are explained: a namespace of the same name may have had other owners. Many
readers share the process with the scheduling loop, so their decisions on the current state may take
one part in LIVE_SHARE of its time; beyond that an answer has the past decisions only. Every answer
is given in parts, in the turn of its question (``questions``).
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
from scheduler.report.decisions.pod_answers import PodAnswers, Present
from scheduler.report.decisions.questions import encoded, paused
from scheduler.report.decisions.tenant_view import tenant_view
from scheduler.state.parts import Parts
from scheduler.state.queue.position import in_slices

MESSAGE_MAX: Final = 1024
REASONS_MAX: Final = 3
LIVE_SHARE: Final = 20
#: The time that decisions on the current state may take at once, in seconds.
LIVE_BURST_S: Final = 1.0
#: Rows of a list that are made in one part.
ROWS: Final = 50


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
        self._live = _LiveTime(clock)
        self._pods_max = pods_max

    async def one(self, namespace: str, name: str) -> NamespaceAnswer:
        """The explanation of one pod; no decision if it is unknown."""
        entry = self._pods.entry(namespace, name)
        pod = entry.pod if entry is not None else self._placed(namespace, name)
        if pod is None:
            return NamespaceAnswer()
        records = self._journal.about(namespace, name)
        record = next((one for one in records if one.uid == pod.uid), None)
        shown = _shown(pod, record, waits=entry is not None)
        answer = await self._pods.about(
            namespace,
            name,
            DECISIONS_OF_A_POD_MAX,
            uid=pod.uid,
            meter=self._live.metered if self._live.is_left() else None,
        )
        assert answer is not None, f"{pod.key} has an entry or a decision"
        content = msgspec.Raw(await encoded(tenant_view(answer), "decisions", part=1))
        return NamespaceAnswer(decisions=(msgspec.structs.replace(shown, answer=content),))

    async def every(self, namespace: str) -> NamespaceAnswer:
        """The pods of a namespace with a decision, and those that wait, by name."""
        return await paused(self._every(namespace))

    def _every(self, namespace: str) -> Parts[NamespaceAnswer]:
        waiting: dict[str, Pod] = {}
        for entries in in_slices([*self._context.queue.entries()]):
            mine = (one.pod for one in entries if one.pod.namespace == namespace)
            waiting |= {pod.uid: pod for pod in mine}
            yield len(entries)
        last: dict[str, Record] = {}
        for records in in_slices([*self._journal.newest()]):
            for record in records:
                if record.namespace == namespace:
                    last.setdefault(record.uid, record)
            yield len(records)
        pods = self._context.cluster.pods
        found = {uid: pods[uid] for uid in last if uid in pods and last[uid].placement is not None}
        every = sorted({**found, **waiting}.values(), key=lambda pod: (pod.name, pod.uid))
        shown: list[PodDecision] = []
        for at in range(0, min(len(every), self._pods_max), ROWS):
            some = every[at : min(at + ROWS, self._pods_max)]
            shown += [_shown(pod, last.get(pod.uid), waits=pod.uid in waiting) for pod in some]
            yield len(some)
        return NamespaceAnswer(decisions=tuple(shown), left_out=len(every) - len(shown))

    def _placed(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name whose last decision is a placement, if it exists."""
        for record in self._journal.about(namespace, name):
            pod = self._context.cluster.pods.get(record.uid)
            if pod is not None and record.placement is not None:
                return pod
        return None


class _LiveTime:
    """The time that is left for decisions on the current state."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left_s = LIVE_BURST_S
        self._counted_at = clock()

    def is_left(self) -> bool:
        """Whether one more decision may be made."""
        now = self._clock()
        earned = (now - self._counted_at) / LIVE_SHARE
        self._left_s = min(LIVE_BURST_S, self._left_s + earned)
        self._counted_at = now
        return self._left_s > 0

    def metered(self, parts: Parts[Present]) -> Parts[Present]:
        """The same parts; their time is spent, and the time between them is not."""
        while True:
            started = self._clock()
            try:
                steps = next(parts)
            except StopIteration as end:
                result: Present = end.value
                return result
            finally:
                self._left_s -= self._clock() - started
            yield steps


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
