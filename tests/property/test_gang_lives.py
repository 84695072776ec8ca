"""Gangs over time: they come and end, Bindings are refused, and none is left half started."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.controllers.gangs.held_places import HELD_S
from scheduler.state import event as ev
from scheduler.state.node_info import over_committed
from scheduler.state.queue.scheduling_queue import BACKOFF_MAX_S
from tests.builders import as_bound, node
from tests.gangs import members
from tests.unit.loop.loop_world import Stage, playing

NODES, GPUS = 3, 2
#: A refused member is tried again for so long in its own place.
RETRIED_S = HELD_S + 2 * BACKOFF_MAX_S
STEP_S = 5


class Job(NamedTuple):
    """A gang of pods with so many GPUs each; ``refused`` are its first Bindings that fail."""

    size: int
    gpus: int
    refused: int
    short: bool


JOBS = st.builds(
    Job,
    size=st.integers(1, NODES * GPUS),
    gpus=st.integers(1, GPUS),
    refused=st.integers(0, 2),
    short=st.booleans(),
)
#: A job that comes, or the number of a running one that ends.
STEPS = st.lists(st.one_of(JOBS, st.integers(0, 3)), min_size=1, max_size=8)


class Life:
    """The jobs of a stage and what became of them."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.jobs: list[Job] = []
        self.running: dict[str, set[str]] = {}
        self.started: set[str] = set()
        self.partial_since: dict[str, float] = {}
        self._refused: dict[str, int] = {}
        self._answered = 0

    def come(self, job: Job) -> None:
        name = f"j{len(self.jobs)}"
        self.jobs.append(job)
        limit = {"activeDeadlineSeconds": 30} if job.short else {}
        made = members(job.size, job.size, name, gpus=job.gpus, spec=limit, created=len(self.jobs))
        self.stage.see(*map(ev.PodUpdated, made))

    def end(self, number: int) -> None:
        """A job ends that runs with all its pods."""
        whole = [name for name in sorted(self.running) if self._is_whole(name)]
        if whole:
            name = whole[number % len(whole)]
            self.stage.see(*map(ev.PodDeleted, sorted(self.running.pop(name))))

    async def pass_time(self) -> None:
        self.stage.pass_time(STEP_S)
        await self.stage.quiet()
        while self._answer():
            await self.stage.quiet()
        self.check()

    def _answer(self) -> bool:
        """The API server answers the Bindings that were sent."""
        sent = self.stage.binder.sent[self._answered :]
        self._answered += len(sent)
        for one in sent:
            group = one.pod.group
            count = self._refused.get(group, 0)
            if count < self.jobs[int(group[1:])].refused:
                self._refused[group] = count + 1
                self.stage.binder.end(one, ev.BindOutcome.REFUSED, "no")
                continue
            self.stage.binder.end(one)
            self.stage.see(ev.PodUpdated(as_bound(one)))
            self.running.setdefault(group, set()).add(one.pod.uid)
            if self._is_whole(group):
                self.started.add(group)
        return bool(sent)

    def _is_whole(self, name: str) -> bool:
        return len(self.running.get(name, ())) == self.jobs[int(name[1:])].size

    def check(self) -> None:
        """No device is held twice, and no gang is left in part."""
        for info in self.stage.loop.cluster.nodes.node_info.values():
            assert not over_committed(info)
        now = self.stage.clock.now
        partial = [
            name for name, there in self.running.items() if there and not self._is_whole(name)
        ]
        self.partial_since = {name: self.partial_since.get(name, now) for name in partial}
        assert all(now - since <= RETRIED_S for since in self.partial_since.values())


def fits_alone(job: Job) -> bool:
    return job.size <= NODES * (GPUS // job.gpus)


async def live(steps: list[Job | int]) -> None:
    async with playing(Stage()) as stage:
        stage.sync()
        stage.see(*(ev.NodeUpdated(node(f"n{number}", gpus=GPUS)) for number in range(NODES)))
        life = Life(stage)
        for step in steps:
            if isinstance(step, Job):
                life.come(step)
            else:
                life.end(step)
            await life.pass_time()
        fitting = {f"j{at}" for at, job in enumerate(life.jobs) if fits_alone(job)}
        for _ in range(len(life.jobs) + 1):
            for _ in range(int(RETRIED_S) // STEP_S):
                if fitting <= life.started:
                    return
                await life.pass_time()
            life.end(0)
        assert fitting <= life.started


@settings(max_examples=settings().max_examples // 4)
@given(STEPS)
def test_no_gang_is_left_in_part_and_each_one_starts(steps: list[Job | int]) -> None:
    asyncio.run(live(steps))
