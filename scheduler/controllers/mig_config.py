"""Lets mig-manager cut idle nodes for pods that wait, where the configuration allows it.

::

    a pod waits, no instance anywhere --a node is all idle--> its label is set, it takes nobody
        --mig-manager: pending ... success--> it offers instances, the pod is placed like any other

One node at a time, and none again for ten minutes. The label of the state is set to ``pending`` in
the same patch, so that everybody who reads it stays away from the node before mig-manager begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

import structlog

from scheduler.decide.mig.config_change import Relabel, candidate, idle_nodes, pods_on
from scheduler.framework.pipeline import Pipeline
from scheduler.model import well_known
from scheduler.model.pod import Pod
from scheduler.model.timestamps import epoch
from scheduler.state.cache.cluster import Cluster
from scheduler.state.event import Change
from scheduler.state.queue.scheduling_queue import SchedulingQueue

#: So long a pod has waited before a node is cut anew for it.
WAITS_S: Final = 30.0
#: So long a node is left alone afterwards.
COOLDOWN_S: Final = 600.0
#: So many pods of a kind can wait for one node.
PODS_MAX: Final = 256
#: The state with which mig-manager gives up.
FAILED: Final = "failed"
#: So long the watch may take to show the label; afterwards the node is used again.
SEEN_WITHIN_S: Final = 10.0

log = structlog.get_logger("cuts")


class NodeEventSink(Protocol):
    """Who writes events on pods."""

    def note(self, pod: Pod, reason: str, text: str) -> None:
        """An event that the pod's author should read."""


class NodeGate(Protocol):
    """Who keeps nodes closed."""

    def hold(self, node_name: str) -> None:
        """Let nobody go to a node."""

    def release(self, node_name: str) -> list[Change]:
        """Open it again."""


class MigConfigController:
    """Asks for at most one node at a time; ``wall`` is seconds since 1970."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        doors: NodeGate,
        teller: NodeEventSink,
        send: Callable[[Relabel], None],
        wall: Callable[[], float],
        pipeline: Pipeline,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._doors = doors
        self._teller = teller
        self._send = send
        self._wall = wall
        self._pipeline = pipeline
        self._asked: dict[str, float] = {}
        self._current: Relabel | None = None
        #: Uid of a pod -> the node that is being cut for it.
        self._awaited: dict[str, Relabel] = {}

    def awaited(self, pod: Pod) -> str:
        """The node that is being cut for a pod; empty where none is, or where it failed."""
        relabel = self._awaited.get(pod.uid)
        node_info = self._cluster.at(relabel.node_name) if relabel is not None else None
        node = node_info.node if node_info is not None else None
        if relabel is None or node is None or node.mig_hold == FAILED:
            return ""
        is_cut = not node.mig_hold and any(map(node.allocatable.get, pod.gpu_requests))
        return "" if is_cut else relabel.node_name

    def tick(self) -> list[Change]:
        """A second has passed; asked only of who leads."""
        now = self._wall()
        for name in [name for name, at in self._asked.items() if now - at >= COOLDOWN_S]:
            del self._asked[name]
            self._await_no_more(name)
        if self._current is not None:
            return self._follow(self._current, now)
        waiting = self._waiting(now)
        idle = idle_nodes(self._cluster, frozenset(self._asked)) if waiting else []
        for pods in waiting:
            found = candidate(idle, pods[0], self._pipeline)
            if found is not None:
                self._ask(found, pods, now)
                break
        return []

    def _waiting(self, now: float) -> list[list[Pod]]:
        """By kind the pods that lack nothing but MIG instances, and have for a while."""
        groups = (list(islice(group, PODS_MAX)) for group in self._queue.lacking_one())
        return [
            pods for pods in groups if pods and now - (epoch(pods[0].created) or now) >= WAITS_S
        ]

    def _ask(self, relabel: Relabel, pods: list[Pod], now: float) -> None:
        pod = pods[0]
        self._asked[relabel.node_name] = now
        self._current = relabel
        node_info = self._cluster.at(relabel.node_name)
        room = (
            pods_on(node_info.node, pod)
            if node_info is not None and node_info.node is not None
            else 0
        )
        self._awaited.update((one.uid, relabel) for one in pods[:room])
        # Nobody may get a GPU of it between now and the moment in which the label is seen.
        self._doors.hold(relabel.node_name)
        text = f"{relabel.node_name} is idle and is to be cut as {relabel.config}"
        log.info("an idle node is cut anew", pod=pod.key, node=relabel.node_name)
        self._teller.note(pod, "MigRelabelled", text)
        self._send(relabel)

    def _follow(self, relabel: Relabel, now: float) -> list[Change]:
        """Once the label is seen its state keeps pods away; the node needs no more care."""
        node_info = self._cluster.at(relabel.node_name)
        node = node_info.node if node_info is not None else None
        is_seen = node is None or node.labels.get(well_known.MIG_WANTED) == relabel.config
        # No tick comes while another replica leads, and by then the node may be forgotten.
        asked_at = self._asked.get(relabel.node_name, -math.inf)
        if not is_seen and now - asked_at < SEEN_WITHIN_S:
            return []
        self._current = None
        if not is_seen:
            self._await_no_more(relabel.node_name)
        return self._doors.release(relabel.node_name)

    def _await_no_more(self, node_name: str) -> None:
        for uid in [uid for uid, one in self._awaited.items() if one.node_name == node_name]:
            del self._awaited[uid]
