"""Explains one pod: its place in the queue, the present decision, and its past ones.

It changes nothing: the present decision has no effect. An explanation is long, so it is given in
parts, in the turn of its question (``questions``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeAlias

from scheduler.decide.explain import Outcome, meanings
from scheduler.decide.remedy.outlook import Outlook
from scheduler.decide.remedy.question import answer
from scheduler.report.decisions.api_types import API_VERSION, Decided, PodAnswer, Waiting
from scheduler.report.decisions.journal import DecisionContext, Journal, Record
from scheduler.report.decisions.questions import paused
from scheduler.report.decisions.renderer import DecisionRenderer
from scheduler.state.parts import Parts
from scheduler.state.queue.position import position
from scheduler.state.queue.scheduling_queue import QueuedPodInfo

#: The decision on the current state.
Present: TypeAlias = tuple[Outcome, Outlook]
#: Passes the parts of a decision on, and may count them.
Meter: TypeAlias = Callable[[Parts[Present]], Parts[Present]]


def unmetered(parts: Parts[Present]) -> Parts[Present]:
    """The parts as they are."""
    return parts


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

    async def about(
        self,
        namespace: str,
        name: str,
        limit: int,
        *,
        uid: str | None = None,
        meter: Meter | None = unmetered,
    ) -> PodAnswer | None:
        """The explanation with at most ``limit`` past decisions; None for an unknown pod.

        With ``uid`` only decisions about that pod count, and none about a former one of the name.
        ``meter`` gets the decision on the current state, which costs as much as a normal one;
        None leaves it out.
        """
        records = self._journal.about(namespace, name)
        found = [one for one in records if uid in (None, one.uid)]
        entry = self.entry(namespace, name)
        if not found and entry is None:
            return None
        admission = self._journal.admission_of(entry.pod if entry is not None else found[0])
        now: Outcome | None = None
        expected: Outlook | None = None
        if entry is not None and meter is not None:
            now, expected = await self._decide_now(entry, meter)
        decisions = await decided(self._renderer, found[:limit])
        return PodAnswer(
            api_version=API_VERSION,
            namespace=namespace,
            pod=name,
            leads=self._leads(),
            waiting=None if entry is None else await self._waiting(entry),
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

    async def _waiting(self, entry: QueuedPodInfo) -> Waiting:
        place = await paused(position(entry, self._context.queue.entries()))
        return self._renderer.waiting(entry, place)

    async def _decide_now(
        self, entry: QueuedPodInfo, meter: Meter
    ) -> tuple[Outcome | None, Outlook | None]:
        cluster, pipeline = self._context.cluster, self._context.pipeline
        try:
            return await paused(meter(answer(cluster, entry.pod, pipeline)))
        except Exception:  # noqa: BLE001 - the loop reports the same error for this pod
            return None, None


async def decided(
    renderer: DecisionRenderer, records: Iterable[Record], rows_max: int | None = None
) -> tuple[Decided, ...]:
    """The decisions, each of which is one part."""
    found = []
    for record in records:
        found.append(renderer.decided(record, rows_max))
        await asyncio.sleep(0)
    return tuple(found)


def _codes(outcomes: Iterable[Outcome | None]) -> set[str]:
    return {refusal.code for one in outcomes if one is not None for refusal in one.refusals}
