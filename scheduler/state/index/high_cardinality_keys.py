"""Nodes by the value of labels with very many values, such as the host name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.model.node import Node


class HighCardinalityKeys:
    """For each of these label keys the names of the nodes by value."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._nodes: dict[str, dict[str, set[str]]] = {key: {} for key in keys}

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __contains__(self, key: str) -> bool:
        return key in self._nodes

    def put(self, node: Node) -> None:
        """A node was added."""
        for key, values in self._nodes.items():
            value = node.labels.get(key)
            if value is not None:
                values.setdefault(value, set()).add(node.name)

    def take(self, node: Node) -> None:
        """A node with these labels was removed."""
        for key, values in self._nodes.items():
            value = node.labels.get(key)
            if value is not None:
                values[value].discard(node.name)
                if not values[value]:
                    del values[value]

    def with_value(self, key: str, value: str) -> set[str] | None:
        """Names of the nodes with this label; None if the key is not one of these."""
        values = self._nodes.get(key)
        return None if values is None else values.get(value, set())
