"""Reports nodes whose annotation describes a MIG geometry that their GPUs cannot have.

Every replica logs each flaw. The leader records it as an event on the node (``kubectl describe
node``), once until the annotation changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import structlog

from scheduler.model.actions import RecordNodeEvent
from scheduler.model.node import Node
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING, Effects

REASON: Final = "MigConfigInvalid"

log = structlog.get_logger("scheduler")


class NodeEvents:
    """The flaws of every node, and the nodes whose flaws have no event yet."""

    name = "node-events"
    handles = (ev.NodeUpdated, ev.NodesReplaced, ev.NodeDeleted)

    def __init__(self) -> None:
        self._flaws: dict[str, tuple[str, ...]] = {}
        self._unreported: dict[str, Node] = {}

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Check the nodes in an event."""
        match event:
            case ev.NodeUpdated(node):
                self._check((node,))
            case ev.NodesReplaced(nodes):
                self._check(nodes)
            case ev.NodeDeleted(name):
                self._flaws.pop(name, None)
                self._unreported.pop(name, None)
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Record the events; only the leader does."""
        if not leads or not self._unreported:
            return NOTHING
        nodes = list(self._unreported.values())
        self._unreported.clear()
        return tuple(
            RecordNodeEvent(node, REASON, flaw) for node in nodes for flaw in node.geometry.flaws
        )

    def _check(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            # Most nodes have no such annotation, and heartbeats are frequent.
            flaws = node.geometry.flaws if node.annotations else ()
            if flaws == self._flaws.get(node.name, ()):
                continue
            self._flaws[node.name] = flaws
            self._unreported[node.name] = node
            for flaw in flaws:
                log.warning("invalid MIG configuration", node=node.name, problem=flaw)
