"""Computes the content of a page from the state of this process, in parts.

Only the leader computes: another replica names it. Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from scheduler.model.limits import DECISIONS_OF_A_POD_MAX
from scheduler.model.pods.pod import Pod
from scheduler.report.dashboard.leadership import pod_of
from scheduler.report.dashboard.pages.health import Listeners, health_page
from scheduler.report.dashboard.pages.history import History
from scheduler.report.dashboard.pages.nodes import nodes_page
from scheduler.report.dashboard.pages.overview import overview_page
from scheduler.report.dashboard.pages.page import PageState, encoded
from scheduler.report.dashboard.pages.pod import Queued, pod_page
from scheduler.report.dashboard.pages.teams import NO_COSTS, team_costs, teams_page
from scheduler.report.dashboard.pages.waiting import waiting_page
from scheduler.report.dashboard.pages.waiting_sums import waiting_sums
from scheduler.report.dashboard.process_facts import ProcessFacts
from scheduler.report.dashboard.stopwatch import Stopwatch
from scheduler.report.decisions.api_types import PodAnswer
from scheduler.report.decisions.pod_answers import PodAnswers, Present
from scheduler.report.decisions.questions import paused
from scheduler.report.process import AnsweringProcess
from scheduler.report.wall_times import LoopTimes, WallTimes
from scheduler.state.parts import Parts
from scheduler.state.queue.position import in_slices
from scheduler.state.queue.scheduling_queue import QueuedPodInfo

POD: Final = "pod"
PAGES: Final = ("overview", "nodes", "waiting", POD, "teams", "health")


class PageKey(NamedTuple):
    """A page, and its pod where it is the page of one."""

    page: str
    namespace: str = ""
    name: str = ""


class Content(msgspec.Struct, frozen=True):
    """What a page shows; equal contents are sent once. ``data`` is JSON."""

    state: PageState
    message: str = ""
    leader: str = ""
    data: bytes = b"null"


class PageContents:
    """The contents of all pages."""

    def __init__(
        self,
        process: AnsweringProcess,
        answers: PodAnswers,
        facts: ProcessFacts,
        history: History,
        is_synced: Callable[[], bool],
    ) -> None:
        self._context = process.context
        self._capacity = process.capacity
        self._costs = process.costs
        self._answers = answers
        self._facts = facts
        self._history = history
        self._leadership = process.leadership
        self._is_synced = is_synced
        self._times = WallTimes(process.clock, process.wall)
        self._wall = process.wall

    @property
    def generation(self) -> int:
        """The number of changes of the state."""
        return self._context.generation

    @property
    def leader(self) -> str:
        """The pod of the leader, as last seen."""
        return pod_of(self._leadership.holder)

    def obstacle(self) -> Content | None:
        """Why this process has no pages to show, if so."""
        leader = self.leader
        if not self._leadership.leads():
            named = (
                f"the leader is {leader}; gpuctl dashboard forwards to it"
                if leader
                else "there is no leader at present"
            )
            return Content("standby", f"this replica is not the leader: {named}", leader)
        if not self._is_synced():
            return Content("starting", "the leader has not read all objects yet", leader)
        return None

    async def compute(self, key: PageKey, watch: Stopwatch, listeners: Listeners) -> Content:
        """The content of a page now, in the turn of its question."""
        times = self._times.now()
        if key.page == POD:
            return await self._pod(key, times, watch)
        data = await paused(watch.timed(self._data(key.page, times, listeners)))
        return Content("ok", leader=self.leader, data=data)

    def _data(self, page: str, times: LoopTimes, listeners: Listeners) -> Parts[bytes]:
        if page == "nodes":
            nodes = yield from nodes_page(self._context.cluster)
            return (yield from encoded(nodes, "nodes"))
        entries = list(self._context.queue.entries())
        if page == "waiting":
            waiting = yield from waiting_page(entries, times)
            return (yield from encoded(waiting, "pods"))
        if page == "health":
            facts = self._facts.collect(times, listeners)
            oldest = min((entry.since for entry in entries), default=None)
            since = None if oldest is None else times.at(oldest)
            return (yield from encoded(health_page(facts, since, self._wall())))
        if page == "overview":
            capacity = yield from self._capacity.take(with_nodes=True, with_holders=False)
            sums = yield from waiting_sums(entries)
            history = self._history.columns()
            return (yield from encoded(overview_page(capacity, sums, history, times)))
        return (yield from self._teams(entries, times))

    def _teams(self, entries: list[QueuedPodInfo], times: LoopTimes) -> Parts[bytes]:
        """Devices and costs of each namespace, in one pass over the nodes."""
        costs = self._costs.begin()
        beside = costs.add if costs.currency else None
        capacity = yield from self._capacity.take(
            with_nodes=False, with_holders=False, beside=beside
        )
        sums = yield from waiting_sums(entries)
        by_team = NO_COSTS if beside is None else team_costs((yield from costs.finish()))
        return (yield from encoded(teams_page(capacity, sums, times, by_team), "teams"))

    # --- one pod -----------------------------------------------------------------------------

    async def _pod(self, key: PageKey, times: LoopTimes, watch: Stopwatch) -> Content:
        namespace, name = key.namespace, key.name
        limit = DECISIONS_OF_A_POD_MAX

        def meter(parts: Parts[Present]) -> Parts[Present]:
            return watch.timed(parts)

        answer = await self._answers.about(namespace, name, limit, meter=meter)
        entry = self._answers.entry(namespace, name)
        pod = await paused(watch.timed(self._find(namespace, name, entry)))
        if answer is None and pod is None:
            text = f"{namespace}/{name} is unknown: there is no such pod, and no stored decision"
            return Content("unknown", text, self.leader)
        queued = None if entry is None else _queued(entry, answer, times)
        page = pod_page(namespace, name, pod, answer, queued, self._wall())
        data = await paused(watch.timed(encoded(page, "decisions")))
        return Content("ok", leader=self.leader, data=data)

    def _find(self, namespace: str, name: str, entry: QueuedPodInfo | None) -> Parts[Pod | None]:
        """The newest version of the pod of that name, the living one first."""
        pods = self._context.cluster.pods
        if entry is not None:
            return pods.get(entry.pod.uid, entry.pod)
        found: Pod | None = None
        for part in in_slices(list(pods.values())):
            for pod in part:
                is_it = pod.name == name and pod.namespace == namespace
                if is_it and (found is None or found.is_deleting or found.is_terminal):
                    found = pod
            yield len(part)
        return found


def _queued(entry: QueuedPodInfo, answer: PodAnswer | None, times: LoopTimes) -> Queued | None:
    waiting = answer.waiting if answer is not None else None
    if waiting is None:
        return None
    return Queued(
        place=waiting.place,
        attempts=waiting.attempts,
        since=times.at(entry.since),
        next_try=times.at(entry.ready_at) if entry.place == "backoff" else None,
        woken_by=waiting.woken_by,
        position=waiting.position,
        of=waiting.of,
        before=waiting.before,
    )
