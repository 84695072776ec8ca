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

from scheduler.bind.partition_writer import PartitionWriter
from scheduler.config import Config
from scheduler.controllers.mig_config import MigConfigController, NodeEventSink, NodeGate
from scheduler.decide.mig import partition_status
from scheduler.framework.decision import PendingPlacement
from scheduler.model.crd.mig_partition import PartitionRequest
from scheduler.model.pod import Pod
from scheduler.model.reason import RequeueCause
from scheduler.model.timestamps import rfc3339
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.breakers.gpu_backoff import GpuBackoff
from scheduler.state.cache.cluster import Cluster
from scheduler.state.queue.scheduling_queue import SchedulingQueue

TIMEOUT_S: Final = 60.0

log = structlog.get_logger("cuts")


class PendingPartition(msgspec.Struct):
    """A placement that waits; ``deadline`` is the loop's clock, ``until`` the same for people."""

    carve: PendingPlacement
    deadline: float
    until: str
    problem: str = ""


class PartitionResult(msgspec.Struct, frozen=True):
    """What follows: pods to bind now, pods that are not waited for any more, and changes."""

    ready: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    changes: tuple[ev.Change, ...] = ()


NOTHING: Final = PartitionResult()


class PartitionController:
    """One scheduler's open cuts; ``wall`` is seconds since 1970."""

    def __init__(
        self,
        cluster: Cluster,
        teller: NodeEventSink,
        send: Callable[[str, tuple[PartitionRequest, ...]], None],
        wall: Callable[[], float],
        count: Callable[[str], None] = lambda result: None,
        timeout_s: float = TIMEOUT_S,
        relabeling: MigConfigController | None = None,
    ) -> None:
        self._cluster = cluster
        self._relabeling = relabeling
        self._teller = teller
        self._send = send
        self._wall = wall
        self._count = count
        self._timeout_s = timeout_s
        self._open: dict[str, PendingPartition] = {}
        self._rests = GpuBackoff()

    def begin(self, carve: PendingPlacement, now: float) -> PartitionResult:
        """A placement was assumed: ask for what it lacks."""
        until = rfc3339(self._wall() + self._timeout_s)
        self._open[carve.pod.uid] = PendingPartition(carve, now + self._timeout_s, until)
        if carve.fresh:
            text = ", ".join(map(str, carve.fresh))
            self._teller.note(carve.pod, "CutRequested", f"{carve.node_name} is to cut {text}")
        self._ask(carve.node_name)
        return self._look(now, carve.node_name)

    def after(self, event: ev.Event, now: float) -> PartitionResult:
        """An event was folded: what follows for those who wait."""
        if not self._open:
            return NOTHING
        match event:
            case ev.PartitionsWriteFailed(node_name, message):
                for one in self._at(node_name):
                    one.problem = message
            case (
                ev.PartitionsUpdated()
                | ev.PartitionsReplaced()
                | ev.NodeUpdated()
                | ev.NodesReplaced()
            ):
                return self._look(now)
            case ev.PodUpdated() | ev.PodDeleted() | ev.PodsReplaced() | ev.NodeDeleted():
                return self._look(now)
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> PartitionResult:
        """Let time pass. Who leads no more lets go of everything that is open."""
        rested = [self._rest(node_name) for node_name in self._rests.tick(now)]
        woken = tuple(change for changes in rested for change in changes)
        if not leads:
            found = [self._give_up(one) for one in list(self._open.values())]
            return PartitionResult((), *_both(found)) if found else PartitionResult(changes=woken)
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

    def _at(self, node_name: str) -> list[PendingPartition]:
        return [one for one in self._open.values() if one.carve.node_name == node_name]

    def _look(self, now: float, node_name: str = "") -> PartitionResult:
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
            elif (
                refused := partition_status.refusal(self._cluster, one.carve, one.until)
            ) is not None:
                ended.append(self._fail(one, refused.message, {refused.spot.gpu}, "failed", now))
            elif partition_status.is_ready(self._cluster, one.carve, self._beside(one)):
                del self._open[uid]
                self._rests.worked(one.carve.node_name, {spot.gpu for spot in one.carve.fresh})
                self._count("ready")
                ready.append(uid)
            elif now >= one.deadline:
                ended.append(self._late(one, now))
        return PartitionResult(tuple(ready), *_both(ended)) if ready or ended else NOTHING

    def _beside(self, one: PendingPartition) -> list[Pod]:
        """The other pods that wait on the same node."""
        at = self._at(one.carve.node_name)
        return [other.carve.pod for other in at if other is not one]

    # --- how it ends -------------------------------------------------------------------------

    def _give_up(self, one: PendingPartition) -> tuple[str, Iterable[ev.Change]]:
        uid = one.carve.pod.uid
        del self._open[uid]
        changes = self._cluster.forget(uid)
        pod = self._cluster.pods[uid]
        waits = pod.waits_for(self._cluster.scheduler_name)
        return uid, (*changes, ev.PodPending(pod) if waits else ev.PodDone(uid))

    def _late(self, one: PendingPartition, now: float) -> tuple[str, Iterable[ev.Change]]:
        problem = one.problem or partition_status.lateness(self._cluster, one.carve)
        text = f"{problem} within {self._timeout_s:g} s"
        return self._fail(one, text, None, "timeout", now)

    def _fail(
        self, one: PendingPartition, problem: str, gpus: set[int] | None, result: str, now: float
    ) -> tuple[str, Iterable[ev.Change]]:
        """The pod is tried again, and elsewhere: the GPUs (None: all of the node's) rest."""
        carve, uid = one.carve, one.carve.pod.uid
        del self._open[uid]
        node_info = self._cluster.at(carve.node_name)
        cuttable = (
            node_info.node.cuttable
            if node_info is not None and node_info.node is not None
            else None
        )
        every = range(cuttable.count) if cuttable is not None else ()
        pause_s = self._rests.failed(carve.node_name, every if gpus is None else gpus, now)
        changes = (*self._cluster.forget(uid), *self._rest(carve.node_name))
        which = "its GPUs rest" if gpus is None else f"GPU {min(gpus)} rests"
        text = f"{carve.node_name}: {problem}; {which} for {pause_s:g} s"
        log.warning("instances were not cut", pod=carve.pod.key, problem=text)
        self._count(result)
        self._teller.note(carve.pod, "CutFailed", text)
        pod = self._cluster.pods[uid]
        return uid, (*changes, ev.BindFailed(pod, text, "cutting MIG instances failed"))

    def _rest(self, node_name: str) -> list[ev.Change]:
        self._cluster.nodes.pause_gpus(node_name, self._rests.resting(node_name))
        return [ev.ClusterEvent(RequeueCause.AVOIDED, node_name=node_name)]

    def _ask(self, node_name: str) -> None:
        """Say which instances must exist: what is held, and what is waited for."""
        node_info = self._cluster.at(node_name)
        if node_info is None:
            return
        orders = [
            PartitionRequest(spot, uid, self._open[uid].until if uid in self._open else "")
            for uid, (_, holding) in node_info.pods.items()
            for spot in holding.spots
        ]
        self._send(node_name, tuple(sorted(orders, key=lambda one: one.spot)))


def maker(
    config: Config,
    teller: NodeEventSink,
    cutter: PartitionWriter,
    wall: Callable[[], datetime],
    metrics: Metrics,
) -> Callable[[Cluster, SchedulingQueue, NodeGate], PartitionController]:
    """What makes a loop's open cuts, once there is a state."""

    def now() -> float:
        return wall().timestamp()

    def count(result: str) -> None:
        metrics.cuts.labels(result).inc()

    def make(cluster: Cluster, queue: SchedulingQueue, doors: NodeGate) -> PartitionController:
        timeout_s = config.mig.cut_timeout_s
        relabeling = None
        if config.mig.relabel_nodes:
            relabeling = MigConfigController(
                cluster, queue, doors, teller, cutter.relabel, now, config.pipeline()
            )
        return PartitionController(cluster, teller, cutter.send, now, count, timeout_s, relabeling)

    return make


def _both(
    ended: Iterable[tuple[str, Iterable[ev.Change]]],
) -> tuple[tuple[str, ...], tuple[ev.Change, ...]]:
    ended = list(ended)
    return (
        tuple(uid for uid, _ in ended),
        tuple(change for _, changes in ended for change in changes),
    )
