"""The domains of every node: the values of some label keys, far first.

A domain is the path of values down to it, so that rack 1 of block a is not rack 1 of block b::

    keys (block, rack)     n1: ("a", "1")     n2: ("a", "2")     n3: ("b", None), without a rack

Events of nodes keep the paths; a decision reads them.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model.node import Node

#: Values of the first keys, as many as the level is deep; None where a node lacks the label.
Path = tuple[str | None, ...]
#: The whole cluster.
ROOT: Path = ()


class DomainPaths:
    """The paths of all nodes for some keys."""

    def __init__(self, keys: tuple[str, ...], nodes: Mapping[str, Node]) -> None:
        self.keys = keys
        #: By node the domains that it is in, far first: paths of one value, of two, ...
        self.domains_of: dict[str, tuple[Path, ...]] = {}
        #: The nodes of each domain of any level.
        self.nodes_of: dict[Path, set[str]] = {}
        for node in nodes.values():
            self._enter(node)

    def change(self, name: str, node: Node | None) -> bool:
        """A node is new, changed or gone; returns whether its domains changed."""
        if node is not None and self.path_of(name) == tuple(map(node.labels.get, self.keys)):
            return False
        for path in self.domains_of.pop(name, ()):
            members = self.nodes_of[path]
            members.discard(name)
            if not members:
                del self.nodes_of[path]
        if node is not None:
            self._enter(node)
        return True

    def path_of(self, name: str) -> Path:
        """The whole path of a node; empty for one that does not exist."""
        domains = self.domains_of.get(name)
        return domains[-1] if domains else ROOT

    def _enter(self, node: Node) -> None:
        values = tuple(map(node.labels.get, self.keys))
        domains = tuple(values[: depth + 1] for depth in range(len(values)))
        self.domains_of[node.name] = domains
        for path in domains:
            self.nodes_of.setdefault(path, set()).add(node.name)
