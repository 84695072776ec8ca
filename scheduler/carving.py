"""Placements that wait until their MIG instances are cut: asked for, answered, bound or given up.

::

    decide says Carve --> asked for --every instance Ready and advertised--> bound
                              |--an instance Failed--> its GPU rests, the pod is tried again
                              '--no answer in time---> the node's GPUs rest, likewise

Meanwhile the pod is assumed on its node, so nobody else gets its slices. Only the leader asks. A
new one finds nothing open: it decides again, and what was cut meanwhile lies idle and is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

import msgspec
import structlog

from scheduler.bind.cutter import Cutter
from scheduler.config import Config
from scheduler.decide import cutanswer
from scheduler.decide.decision import Carve
from scheduler.model.cut import Order
from scheduler.model.moment import rfc3339
from scheduler.model.pod import Pod
from scheduler.model.reason import Cause
from scheduler.relabeling import Doors, Relabeling, Teller
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cluster import Cluster
from scheduler.state.queue import Queue
from scheduler.state.rests import Rests

TIMEOUT_S: Final = 60.0

log = structlog.get_logger("cuts")


class Open(msgspec.Struct):
    """A placement that waits; ``deadline`` is the loop's clock, ``until`` the same for people."""

    carve: Carve
    deadline: float
    until: str
    problem: str = ""


class Steps(msgspec.Struct, frozen=True):
    """What follows: pods to bind now, pods that are not waited for any more, and changes."""

    ready: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    changes: tuple[ev.Change, ...] = ()


NOTHING: Final = Steps()


class Carving:
    """One scheduler's open cuts; ``wall`` is seconds since 1970."""

    def __init__(
        self,
        cluster: Cluster,
        teller: Teller,
        send: Callable[[str, tuple[Order, ...]], None],
        wall: Callable[[], float],
        count: Callable[[str], None] = lambda result: None,
        timeout_s: float = TIMEOUT_S,
        relabeling: Relabeling | None = None,
    ) -> None:
        self._cluster = cluster
        self._relabeling = relabeling
        self._teller = teller
        self._send = send
        self._wall = wall
        self._count = count
        self._timeout_s = timeout_s
        self._open: dict[str, Open] = {}
        self._rests = Rests()

    def begin(self, carve: Carve, now: float) -> Steps:
        """A placement was assumed: ask for what it lacks."""
        until = rfc3339(self._wall() + self._timeout_s)
        self._open[carve.pod.uid] = Open(carve, now + self._timeout_s, until)
        if carve.fresh:
            text = ", ".join(map(str, carve.fresh))
            self._teller.note(carve.pod, "CutRequested", f"{carve.node_name} is to cut {text}")
        self._ask(carve.node_name)
        return self._look(now, carve.node_name)

    def after(self, event: ev.Event, now: float) -> Steps:
        """An event was folded: what follows for those who wait."""
        if not self._open:
            return NOTHING
        match event:
            case ev.CutsUnwritten(node_name, message):
                for one in self._at(node_name):
                    one.problem = message
            case ev.CutsSeen() | ev.CutsListed() | ev.NodeSeen() | ev.NodesListed():
                return self._look(now)
            case ev.PodSeen() | ev.PodVanished() | ev.PodsListed() | ev.NodeVanished():
                return self._look(now)
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Steps:
        """Let time pass. Who leads no more lets go of everything that is open."""
        rested = [self._rest(node_name) for node_name in self._rests.tick(now)]
        woken = tuple(change for changes in rested for change in changes)
        if not leads:
            found = [self._give_up(one) for one in list(self._open.values())]
            return Steps((), *_both(found)) if found else Steps(changes=woken)
        if self._relabeling is not None:
            woken += tuple(self._relabeling.tick())
        for node_name in {one.carve.node_name for one in self._open.values() if one.problem}:
            self._ask(node_name)  # the API server may have changed its mind
        steps = self._look(now) if self._open else NOTHING
        return msgspec.structs.replace(steps, changes=(*woken, *steps.changes))

    def awaited(self, pod: Pod) -> str:
        """The node that mig-manager is cutting for a pod; empty where there is none."""
        return "" if self._relabeling is None else self._relabeling.awaited(pod)

    # --- those who wait ----------------------------------------------------------------------

    def _at(self, node_name: str) -> list[Open]:
        return [one for one in self._open.values() if one.carve.node_name == node_name]

    def _look(self, now: float, node_name: str = "") -> Steps:
        ready: list[str] = []
        ended: list[tuple[str, Iterable[ev.Change]]] = []
        for one in self._at(node_name) if node_name else list(self._open.values()):
            uid = one.carve.pod.uid
            if uid not in self._cluster.assumed:
                del self._open[uid]
                ended.append((uid, ()))
            elif (
                self._cluster.pods[uid].is_deleting or self._cluster.at(one.carve.node_name) is None
            ):
                ended.append(self._give_up(one))
            elif (refused := cutanswer.refusal(self._cluster, one.carve, one.until)) is not None:
                ended.append(self._fail(one, refused.message, {refused.spot.gpu}, "failed", now))
            elif cutanswer.is_ready(self._cluster, one.carve, self._beside(one)):
                del self._open[uid]
                self._rests.worked(one.carve.node_name, {spot.gpu for spot in one.carve.fresh})
                self._count("ready")
                ready.append(uid)
            elif now >= one.deadline:
                ended.append(self._late(one, now))
        return Steps(tuple(ready), *_both(ended)) if ready or ended else NOTHING

    def _beside(self, one: Open) -> list[Pod]:
        """The other pods that wait on the same node."""
        at = self._at(one.carve.node_name)
        return [other.carve.pod for other in at if other is not one]

    # --- how it ends -------------------------------------------------------------------------

    def _give_up(self, one: Open) -> tuple[str, Iterable[ev.Change]]:
        uid = one.carve.pod.uid
        del self._open[uid]
        changes = self._cluster.forget(uid)
        pod = self._cluster.pods[uid]
        waits = pod.waits_for(self._cluster.scheduler_name)
        return uid, (*changes, ev.Waiting(pod) if waits else ev.Settled(uid))

    def _late(self, one: Open, now: float) -> tuple[str, Iterable[ev.Change]]:
        problem = one.problem or cutanswer.lateness(self._cluster, one.carve)
        text = f"{problem} within {self._timeout_s:g} s"
        return self._fail(one, text, None, "timeout", now)

    def _fail(
        self, one: Open, problem: str, gpus: set[int] | None, result: str, now: float
    ) -> tuple[str, Iterable[ev.Change]]:
        """The pod is tried again, and elsewhere: the GPUs (None: all of the node's) rest."""
        carve, uid = one.carve, one.carve.pod.uid
        del self._open[uid]
        books = self._cluster.at(carve.node_name)
        cuttable = books.node.cuttable if books is not None and books.node is not None else None
        every = range(cuttable.count) if cuttable is not None else ()
        pause_s = self._rests.failed(carve.node_name, every if gpus is None else gpus, now)
        changes = (*self._cluster.forget(uid), *self._rest(carve.node_name))
        which = "its GPUs rest" if gpus is None else f"GPU {min(gpus)} rests"
        text = f"{carve.node_name}: {problem}; {which} for {pause_s:g} s"
        log.warning("instances were not cut", pod=carve.pod.key, problem=text)
        self._count(result)
        self._teller.note(carve.pod, "CutFailed", text)
        pod = self._cluster.pods[uid]
        return uid, (*changes, ev.Retry(pod, text, "cutting MIG instances failed"))

    def _rest(self, node_name: str) -> list[ev.Change]:
        self._cluster.nodes.rest(node_name, self._rests.resting(node_name))
        return [ev.Lifted(Cause.AVOIDED, node_name=node_name)]

    def _ask(self, node_name: str) -> None:
        """Say which instances must exist: what is held, and what is waited for."""
        books = self._cluster.at(node_name)
        if books is None:
            return
        orders = [
            Order(spot, uid, self._open[uid].until if uid in self._open else "")
            for uid, (_, holding) in books.pods.items()
            for spot in holding.spots
        ]
        self._send(node_name, tuple(sorted(orders, key=lambda one: one.spot)))


def maker(
    config: Config,
    teller: Teller,
    cutter: Cutter,
    wall: Callable[[], datetime],
    metrics: Metrics,
) -> Callable[[Cluster, Queue, Doors], Carving]:
    """What makes a loop's open cuts, once there is a state."""

    def now() -> float:
        return wall().timestamp()

    def count(result: str) -> None:
        metrics.cuts.labels(result).inc()

    def make(cluster: Cluster, queue: Queue, doors: Doors) -> Carving:
        timeout_s = config.mig.cut_timeout_s
        relabeling = None
        if config.mig.relabel_nodes:
            relabeling = Relabeling(cluster, queue, doors, teller, cutter.relabel, now)
        return Carving(cluster, teller, cutter.send, now, count, timeout_s, relabeling)

    return make


def _both(
    ended: Iterable[tuple[str, Iterable[ev.Change]]],
) -> tuple[tuple[str, ...], tuple[ev.Change, ...]]:
    ended = list(ended)
    return (
        tuple(uid for uid, _ in ended),
        tuple(change for _, changes in ended for change in changes),
    )
