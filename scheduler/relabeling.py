"""Lets mig-manager cut idle nodes for pods that wait, where the configuration allows it.

::

    a pod waits, no instance anywhere --a node is all idle--> its label is set, it takes nobody
        --mig-manager: pending ... success--> it offers instances, the pod is placed like any other

One node at a time, and none again for ten minutes. The label of the state is set to ``pending`` in
the same patch, so that everybody who reads it stays away from the node before mig-manager begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import structlog

from scheduler.decide.relabel import Relabel, candidate, idle_nodes
from scheduler.model import names
from scheduler.model.moment import epoch
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.event import Change
from scheduler.state.queue import Queue

#: So long a pod has waited before a node is cut anew for it.
WAITS_S: Final = 30.0
#: So long a node is left alone afterwards.
COOLDOWN_S: Final = 600.0
#: So long the watch may take to show the label; afterwards the node is used again.
SEEN_WITHIN_S: Final = 10.0

log = structlog.get_logger("cuts")


class Teller(Protocol):
    """Who writes events on pods."""

    def note(self, pod: Pod, reason: str, text: str) -> None:
        """An event that the pod's author should read."""


class Doors(Protocol):
    """Who keeps nodes closed."""

    def hold(self, node_name: str) -> None:
        """Let nobody go to a node."""

    def release(self, node_name: str) -> list[Change]:
        """Open it again."""


class Relabeling:
    """Asks for at most one node at a time; ``wall`` is seconds since 1970."""

    def __init__(
        self,
        cluster: Cluster,
        queue: Queue,
        doors: Doors,
        teller: Teller,
        send: Callable[[Relabel], None],
        wall: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._doors = doors
        self._teller = teller
        self._send = send
        self._wall = wall
        self._asked: dict[str, float] = {}
        self._current: Relabel | None = None

    def tick(self) -> list[Change]:
        """A second has passed; asked only of who leads."""
        now = self._wall()
        for name in [name for name, at in self._asked.items() if now - at >= COOLDOWN_S]:
            del self._asked[name]
        if self._current is not None:
            return self._follow(self._current, now)
        waiting = self._waiting(now)
        idle = idle_nodes(self._cluster, frozenset(self._asked)) if waiting else []
        for pod in waiting:
            found = candidate(idle, pod)
            if found is not None:
                self._ask(found, pod, now)
                break
        return []

    def _waiting(self, now: float) -> list[Pod]:
        """One pod of each kind that lacks nothing but MIG instances, and has for a while."""
        first = [next(group, None) for group in self._queue.lacking_one()]
        return [
            pod for pod in first if pod is not None and now - (epoch(pod.created) or now) >= WAITS_S
        ]

    def _ask(self, relabel: Relabel, pod: Pod, now: float) -> None:
        self._asked[relabel.node_name] = now
        self._current = relabel
        # Nobody may get a GPU of it between now and the moment in which the label is seen.
        self._doors.hold(relabel.node_name)
        text = f"{relabel.node_name} is idle and is to be cut as {relabel.config}"
        log.info("an idle node is cut anew", pod=pod.key, node=relabel.node_name)
        self._teller.note(pod, "MigRelabelled", text)
        self._send(relabel)

    def _follow(self, relabel: Relabel, now: float) -> list[Change]:
        """Once the label is seen its state keeps pods away; the node needs no more care."""
        books = self._cluster.at(relabel.node_name)
        node = books.node if books is not None else None
        is_seen = node is None or node.labels.get(names.MIG_WANTED) == relabel.config
        if not is_seen and now - self._asked[relabel.node_name] < SEEN_WITHIN_S:
            return []
        self._current = None
        return self._doors.release(relabel.node_name)
