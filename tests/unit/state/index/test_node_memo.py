"""Answers about nodes are kept until the node changes."""

from __future__ import annotations

import pytest

from scheduler.state.index import node_memo
from scheduler.state.index.node_memo import KEYS_MAX, NodeMemo


def memo(*names: str) -> NodeMemo:
    found = NodeMemo()
    for name in names:
        found.change(name)
    return found


def test_an_answer_is_kept_per_key() -> None:
    known = memo("n1")
    known.of("a").keep("n1", 1)

    assert (known.of("a").get("n1"), known.of("b").get("n1")) == (1, None)


def test_a_change_of_the_node_ends_its_answers_only() -> None:
    known = memo("n1", "n2")
    for name in ("n1", "n2"):
        known.of("a").keep(name, name)
    known.change("n1")

    assert (known.of("a").get("n1"), known.of("a").get("n2")) == (None, "n2")


def test_a_node_that_returns_has_no_answers() -> None:
    known = memo("n1")
    known.of("a").keep("n1", 1)
    known.delete("n1")
    assert known.of("a").get("n1") is None
    known.change("n1")
    assert known.of("a").get("n1") is None


def test_the_key_that_was_used_least_recently_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_memo, "ANSWERS_MAX", 1)
    known = memo("n1")
    for key in "ab":
        known.of(key).keep("n1", key)
    known.of("a")
    known.of("c")

    assert (known.of("a").get("n1"), known.of("b").get("n1")) == ("a", None)


def test_keys_without_answers_do_not_add_up() -> None:
    known = memo()
    for number in range(2 * KEYS_MAX):
        known.of(number)

    assert len(known._by_key) == KEYS_MAX


def test_a_deleted_node_leaves_no_answer_and_no_empty_key() -> None:
    known = memo("n1")
    known.of("kind").keep("n1", "yes")
    known.delete("n1")

    assert not known._by_key
