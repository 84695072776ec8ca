"""Answers about single nodes, kept until the node changes.

A decision with hypothetical placements, or a search for victims, looks at many nodes of which few
changed since the last decision.

Must never: keep an answer that depends on more than the node's NodeInfo and its key.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

#: With more answers about one node all of them are dropped.
ANSWERS_MAX: Final = 16


class NodeMemo:
    """Answers by node and key; the key has everything that an answer depends on beside the node."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: dict[str, dict[Hashable, object]] = {}

    def get(self, name: str, key: Hashable) -> object | None:
        """The answer that was kept, or None."""
        answers = self._answers.get(name)
        return None if answers is None else answers.get(key)

    def keep(self, name: str, key: Hashable, answer: object) -> None:
        """Keep an answer about the node as it is now."""
        answers = self._answers.setdefault(name, {})
        if len(answers) >= ANSWERS_MAX:
            answers.clear()
        answers[key] = answer

    def drop(self, name: str) -> None:
        """The node or one of its pods changed."""
        self._answers.pop(name, None)
