"""Tells a node's owner when its annotation describes GPUs that cannot be cut like that.

One line for each flaw in the log of every replica, and from the leader as an event on the node
(``kubectl describe node``), once until the annotation says something else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import structlog

from scheduler.model.node import Node
from scheduler.state import event as ev

REASON = "MigConfigInvalid"

log = structlog.get_logger("scheduler")


class NodeEventRecorder(Protocol):
    """Where events about nodes go (``report/events/recorder``)."""

    def note_node(self, node: Node, reason: str, text: str) -> None:
        """Something the node's owner should know."""


class NodeEvents:
    """What is wrong with nodes, and what of it was told."""

    def __init__(self, recorder: NodeEventRecorder) -> None:
        self._recorder = recorder
        self._flaws: dict[str, tuple[str, ...]] = {}
        self._untold: dict[str, Node] = {}

    def handle(self, event: ev.Event) -> None:
        """An event that is about to be folded."""
        match event:
            case ev.NodeUpdated(node):
                self._check((node,))
            case ev.NodesReplaced(nodes):
                self._check(nodes)
            case ev.NodeDeleted(name):
                self._flaws.pop(name, None)
                self._untold.pop(name, None)

    def report(self) -> None:
        """Write the events; only who leads does."""
        for node in self._untold.values():
            for flaw in node.geometry.flaws:
                self._recorder.note_node(node, REASON, flaw)
        self._untold.clear()

    def _check(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            # Most nodes have no such annotation, and heartbeats are many.
            flaws = node.geometry.flaws if node.annotations else ()
            if flaws == self._flaws.get(node.name, ()):
                continue
            self._flaws[node.name] = flaws
            self._untold[node.name] = node
            for flaw in flaws:
                log.warning("the GPUs cannot be cut like that", node=node.name, problem=flaw)
