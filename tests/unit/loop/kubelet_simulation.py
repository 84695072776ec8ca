"""A loop and the kubelets of its nodes, on a clock that a test moves: hours pass in a second.

What a kubelet says of a pod is the test's to say. A pod that it refuses fails, which the watch
shows as gone; the one it admits runs until the test ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack

import msgspec

from scheduler.framework.decision import Placement
from scheduler.model.node import Node
from scheduler.model.pods.pod import Condition, Pod
from scheduler.state import event as ev
from scheduler.watch.past_rejections import AGE_MAX_S
from tests.builders import as_bound
from tests.unit.loop.loop_world import Stage, playing

#: Why a kubelet refuses a pod: reason and message; None where it admits it.
Verdict = tuple[str, str] | None
WINDOW_S = 600.0


class Failed(msgspec.Struct, frozen=True):
    """A pod that failed, as it stays in the API."""

    at: float
    pod: Pod
    reason: str
    message: str


class Site:
    """Nodes, pods and one scheduler; another one where the test says so."""

    def __init__(
        self, nodes: Sequence[Node], kubelet: Callable[[Pod, str], Verdict], delay_s: float = 0.0
    ) -> None:
        self.kubelet = kubelet
        self.failed: list[Failed] = []
        self.running: dict[str, tuple[Pod, float]] = {}
        self.waiting: dict[str, Pod] = {}
        self.now = 1000.0
        self._nodes = nodes
        self._delay_s = delay_s
        self._bound: list[tuple[float, Pod]] = []
        self._numbers: Iterator[int] = iter(range(1_000_000))
        self._replicas: list[Stage] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Site:
        await self.restart()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def stage(self) -> Stage:
        """The replica that leads."""
        return next(one for one in self._replicas if one.leader.is_leading)

    async def restart(self) -> None:
        """The scheduler's process ends, and another one begins with what the API has."""
        await self._stack.aclose()
        self._replicas.clear()
        await self.join()
        self.stage.leader.is_leading = True

    async def join(self) -> None:
        """A replica begins; it does not lead."""
        stage = Stage()
        stage.clock.now, stage.leader.is_leading = self.now, not self._replicas
        self._replicas.append(stage)
        await self._stack.enter_async_context(playing(stage))
        past = tuple(
            ev.PastRejection(one.pod, one.pod.node_name, one.reason, one.message, self.now - one.at)
            for one in self.failed
            if self.now - one.at < AGE_MAX_S
        )
        stage.see(
            ev.NodesReplaced(tuple(self._nodes)),
            ev.PodsReplaced(tuple(self.living())),
            ev.PastRejectionsRead(past),
        )
        stage.sync()
        await stage.quiet()

    async def hand_over(self) -> None:
        """Another replica leads from now on."""
        first, second = self._replicas
        first.leader.is_leading = not first.leader.is_leading
        second.leader.is_leading = not second.leader.is_leading
        for one in self._replicas:
            await one.quiet()

    async def create(self, make: Callable[[str], Pod]) -> Pod:
        """A pod with a name that none has had."""
        made = make(f"p{next(self._numbers)}")
        self.waiting[made.uid] = made
        await self._see(ev.PodUpdated(made))
        return made

    async def end(self, uid: str) -> None:
        """A pod that ran is gone."""
        del self.running[uid]
        await self._see(ev.PodDeleted(uid))

    async def step(self, seconds: float = 1.0) -> None:
        """Time passes, Bindings end, and kubelets report."""
        self.now += seconds
        for one in self._replicas:
            one.pass_time(seconds)
        await self._quiet()
        for placement in self._sent():
            await self._bind(placement)
        due = [bound for at, bound in self._bound if at <= self.now]
        self._bound = [(at, bound) for at, bound in self._bound if at > self.now]
        for bound in due:
            await self._admit(bound)

    def living(self) -> list[Pod]:
        """The pods that wait, are on their way, or run."""
        on_their_way = (pod for _, pod in self._bound)
        return [*self.waiting.values(), *on_their_way, *(pod for pod, _ in self.running.values())]

    def most_refused(self, of: Callable[[Pod], bool] = lambda pod: True) -> int:
        """The most pods that failed in any ten minutes."""
        times = [one.at for one in self.failed if of(one.pod)]
        return max((sum(at <= t < at + WINDOW_S for t in times) for at in times), default=0)

    def _sent(self) -> list[Placement]:
        return [one for one in self.stage.binder.sent if one.pod.uid in self.waiting]

    async def _bind(self, placement: Placement) -> None:
        del self.waiting[placement.pod.uid]
        bound = msgspec.structs.replace(as_bound(placement), condition=Condition("True"))
        self.stage.binder.end(placement)
        self._bound.append((self.now + self._delay_s, bound))
        await self._see(ev.PodUpdated(bound))

    async def _admit(self, bound: Pod) -> None:
        verdict = self.kubelet(bound, bound.node_name)
        if verdict is None:
            runs = msgspec.structs.replace(bound, phase="Running", is_admitted=True)
            self.running[bound.uid] = (runs, self.now)
            await self._see(ev.PodUpdated(runs))
            return
        self.failed.append(Failed(self.now, bound, *verdict))
        await self._see(ev.PodDeleted(bound.uid))
        for one in self._replicas:
            assert bound.uid in {pod.uid for pod in one.looked_up}, (
                "the vanished pod was not looked up"
            )
        await self._see(ev.PodRejected(bound.uid, *verdict))

    async def _see(self, event: ev.Event) -> None:
        for one in self._replicas:
            one.see(event)
        await self._quiet()

    async def _quiet(self) -> None:
        for one in self._replicas:
            await one.quiet()
