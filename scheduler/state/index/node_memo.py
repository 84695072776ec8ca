"""Answers about single nodes, kept until the node changes.

A decision looks at many nodes of which few changed since the last one: nodes with a nominated pod,
nodes with possible victims, nodes that are compared with each other. Each change of a node gives it
a new version; an answer holds for the version that it was given for.

Must never: keep an answer that depends on more than the node's NodeInfo and the key.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

#: With more answers about all nodes, or more keys, those of the key that was used least recently
#: are dropped.
ANSWERS_MAX: Final = 50_000
KEYS_MAX: Final = 1024


class NodeAnswers:
    """The answers for one key; ``versions`` are those of all nodes now."""

    __slots__ = ("_known", "_versions")

    def __init__(self, versions: dict[str, int]) -> None:
        self._versions = versions
        self._known: dict[str, tuple[int, object]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, name: str) -> object | None:
        """The answer about a node, or None if there is none or the node changed since."""
        known = self._known.get(name)
        if known is None or known[0] != self._versions.get(name):
            return None
        return known[1]

    def keep(self, name: str, answer: object) -> None:
        """Keep an answer about an existing node as it is now."""
        self._known[name] = (self._versions[name], answer)

    def drop(self, name: str) -> None:
        """Drop the answer about a node that does not exist any more."""
        self._known.pop(name, None)


class NodeMemo:
    """Answers by key and node; a key has everything that they depend on beside the node."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}
        self._changes = 0
        self._by_key: dict[Hashable, NodeAnswers] = {}

    def change(self, name: str) -> None:
        """A node or one of its pods changed."""
        self._changes += 1
        self._versions[name] = self._changes

    def delete(self, name: str) -> None:
        """A node does not exist any more."""
        self._versions.pop(name, None)
        for answers in self._by_key.values():
            answers.drop(name)
        self._by_key = {key: answers for key, answers in self._by_key.items() if len(answers)}

    def of(self, key: Hashable) -> NodeAnswers:
        """The answers for a key, to read and to add to during one decision."""
        answers = self._by_key.pop(key, None)
        if answers is None:
            self._shrink()
            answers = NodeAnswers(self._versions)
        self._by_key[key] = answers
        return answers

    def _shrink(self) -> None:
        total = sum(map(len, self._by_key.values()))
        while total > ANSWERS_MAX or len(self._by_key) >= KEYS_MAX:
            total -= len(self._by_key.pop(next(iter(self._by_key))))
