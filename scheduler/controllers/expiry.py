"""Time-driven changes of the state: reservations and nominations expire, unschedulable pods are
retried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations

log = structlog.get_logger("scheduler")

#: Seconds from one try to take work back that was too young to the next.
RECLAIM_AGAIN_S: Final = 10.0


class ReservationExpiry:
    """Drops reservations whose pod does not appear."""

    name = "reservations"

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Drop expired reservations."""
        if self._reservations.expire(now):
            log.info("reservation expired")
        return NOTHING


class UnschedulableFlush:
    """Retries unschedulable pods after some minutes, even without a requeue event."""

    name = "queue"

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Move the due pods into the active queue."""
        self._queue.flush_unschedulable(now)
        return NOTHING


class ReclaimRetry:
    """Decides pods again that wait until the work on their node has run for the minimum time, after
    which their team may take it back: no event says so.
    """

    name = "reclaim"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tried_at = -RECLAIM_AGAIN_S

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Wake these pods every few seconds, one of each gang."""
        cluster, table = self._cluster, self._cluster.teams.table
        is_due = now - self._tried_at >= RECLAIM_AGAIN_S
        if not (leads and is_due and cluster.nominated and table and table.min_runtime_s):
            return NOTHING
        self._tried_at = now
        asking: dict[object, Pod] = {}
        for uid in cluster.nominated:
            pod = cluster.pods.get(uid)
            if pod is None or not pod.waits_for(cluster.scheduler_name) or not self._may_try(pod):
                continue
            gang = cluster.gangs.key_of(pod) if pod.group else None
            asking.setdefault(gang or uid, pod)
        return tuple(map(ev.PodActivated, asking.values()))

    def _may_try(self, pod: Pod) -> bool:
        """Whether a nominated pod is inside its team's guarantee, and nothing ends for it yet."""
        cluster = self._cluster
        team = cluster.teams.team_asking(pod)
        if team is None or not cluster.teams.is_entitled(team, cluster.teams.least_asked(pod)):
            return False
        if pod.uid in cluster.assumed or pod.uid in cluster.preemptions.running:
            return False
        if cluster.nominations.is_reserved(pod.uid):
            return False
        node_info = cluster.at(cluster.nominated[pod.uid].nominated_node)
        there = node_info.pods.values() if node_info is not None else ()
        return not any(one.is_deleting for one, _ in there)


class NominationExpiry:
    """Decides a pod again whose nominated node does not help it any more.

    An autoscaler adds no node for a pod with a nominated node, and no event at another node wakes
    the pod. A nomination lapses when its node is deleted, and when the migration or the change of
    the MIG configuration ends that the pod waits for.
    """

    name = "nominations"

    def __init__(self, cluster: Cluster, awaited: Callable[[Pod, str], str]) -> None:
        self._cluster = cluster
        self._awaited = awaited
        #: By pod: the node that its condition names, and whether ``awaited`` named it.
        self._shown: dict[str, tuple[str, bool]] = {}

    def awaited(self, pod: Pod, nominated: str = "") -> str:
        """The existing node where capacity is being made for a pod; empty if there is none.

        ``nominated`` is the node where pods end for it, if there is one.
        """
        node_name = self._awaited(pod, nominated)
        return node_name if node_name and self._cluster.at(node_name) is not None else ""

    def show(self, uid: str, node_name: str, awaited: str) -> None:
        """The condition of a rejected pod names this node, or none."""
        if node_name:
            self._shown[uid] = (node_name, node_name == awaited)
        else:
            self._shown.pop(uid, None)

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Wake the pods whose nomination lapsed."""
        effects: Effects = ()
        for uid, (node_name, is_awaited) in tuple(self._shown.items()):
            pod = self._cluster.pods.get(uid)
            if pod is None or pod.node_name or uid in self._cluster.assumed:
                del self._shown[uid]
            elif self._has_lapsed(pod, node_name, is_awaited=is_awaited):
                del self._shown[uid]
                if pod.waits_for(self._cluster.scheduler_name):
                    effects += (ev.PodActivated(pod),)
        return effects

    def _has_lapsed(self, pod: Pod, node_name: str, *, is_awaited: bool) -> bool:
        if self._cluster.at(node_name) is None:
            return True
        return is_awaited and self._awaited(pod, "") != node_name
