"""Explains one pod: its place in the queue, the present decision, and its past ones.

It changes nothing: the present decision has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduler.decide.explain import Outcome, meanings
from scheduler.decide.explain_now import explain_now
from scheduler.decide.remedy.outlook import Outlook, outlook
from scheduler.report.decisions.api_types import API_VERSION, PodAnswer, Waiting
from scheduler.report.decisions.journal import DecisionContext, Journal
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.state.queue.scheduling_queue import QueuedPodInfo


class PodAnswers:
    """Explains the pods of one process; ``leads`` tells whether it is the leader."""

    def __init__(
        self,
        context: DecisionContext,
        journal: Journal,
        renderer: DecisionRenderer,
        leads: Callable[[], bool],
    ) -> None:
        self._context = context
        self._journal = journal
        self._renderer = renderer
        self._leads = leads

    def about(
        self, namespace: str, name: str, limit: int, *, uid: str | None = None, decides: bool = True
    ) -> PodAnswer | None:
        """The explanation with at most ``limit`` past decisions; None for an unknown pod.

        With ``uid`` only decisions about that pod count, and none about a former one of the name.
        ``decides`` adds the decision on the current state, which costs as much as a normal one.
        """
        records = self._journal.about(namespace, name)
        found = [one for one in records if uid in (None, one.uid)]
        entry = self.entry(namespace, name)
        if not found and entry is None:
            return None
        decisions = tuple(self._renderer.decided(record) for record in found[:limit])
        now, expected = (None, None) if entry is None or not decides else self._decide_now(entry)
        admission = self._journal.admission_of(entry.pod if entry is not None else found[0])
        return PodAnswer(
            api_version=API_VERSION,
            namespace=namespace,
            pod=name,
            leads=self._leads(),
            waiting=None if entry is None else self._waiting(entry),
            now=now,
            outlook=expected,
            decisions=decisions,
            admission=None if admission is None else self._renderer.admitted(admission),
            codes=meanings(_codes([now, *(one.outcome for one in decisions)])),
        )

    def entry(self, namespace: str, name: str) -> QueuedPodInfo | None:
        """The waiting pod of that name; the younger one if an old one is still terminating."""
        found = [
            entry
            for entry in self._context.queue.entries()
            if entry.pod.name == name and entry.pod.namespace == namespace
        ]
        return found[-1] if found else None

    def _waiting(self, entry: QueuedPodInfo) -> Waiting:
        return self._renderer.waiting(entry, self._context.queue.entries())

    def _decide_now(self, entry: QueuedPodInfo) -> tuple[Outcome | None, Outlook | None]:
        cluster, pipeline = self._context.cluster, self._context.pipeline
        try:
            now = explain_now(cluster, entry.pod, pipeline)
            return now, outlook(cluster, entry.pod, pipeline, now)
        except Exception:  # noqa: BLE001 - the loop reports the same error for this pod
            return None, None


def _codes(outcomes: Iterable[Outcome | None]) -> set[str]:
    return {refusal.code for one in outcomes if one is not None for refusal in one.refusals}
