"""The patch between two objects, and its application as strict as the API server's."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.mutate.json_patch import PatchError, apply, difference


@pytest.mark.parametrize(
    ("old", "new", "operations"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="equal"),
        pytest.param(
            {"a": {}},
            {"a": {"x/y~z": "v"}},
            [{"op": "add", "path": "/a/x~1y~0z", "value": "v"}],
            id="escaped-key",
        ),
        pytest.param(
            {"a": None},
            {"a": {"b": "c"}},
            [{"op": "add", "path": "/a", "value": {"b": "c"}}],
            id="null-becomes-an-object",
        ),
        pytest.param(
            {"e": [{"n": "A", "v": "1"}]},
            {"e": [{"n": "A", "w": {}}]},
            [{"op": "remove", "path": "/e/0/v"}, {"op": "add", "path": "/e/0/w", "value": {}}],
            id="value-swapped",
        ),
        pytest.param(
            {"e": [{"n": "A"}]},
            {"e": [{"n": "B"}, {"n": "A"}]},
            [{"op": "add", "path": "/e/0", "value": {"n": "B"}}],
            id="put-in-front",
        ),
        pytest.param(
            {"e": [1, 2]},
            {"e": [1, 3]},
            [{"op": "replace", "path": "/e/1", "value": 3}],
            id="plain-item",
        ),
        pytest.param(
            {"e": [1]}, {"e": []}, [{"op": "add", "path": "/e", "value": []}], id="shorter-list"
        ),
        pytest.param(
            {"a": 1},
            {"a": True},
            [{"op": "add", "path": "/a", "value": True}],
            id="one-is-not-true",
        ),
    ],
)
def test_a_difference_names_only_what_changed(
    old: Any, new: Any, operations: list[dict[str, Any]]
) -> None:
    """And its application gives the new object."""
    assert difference(old, new) == operations
    assert apply(old, operations) == new


def test_a_patch_leaves_its_input_alone() -> None:
    """The same decoded pod can be reviewed again."""
    old = {"a": {"b": [{"c": 1}]}}

    apply(old, [{"op": "add", "path": "/a/b/0/c", "value": 2}])

    assert old == {"a": {"b": [{"c": 1}]}}


@pytest.mark.contract("S2-B10")
@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "replace", "path": "/e/0/value", "value": 1}, id="replace-missing"),
        pytest.param({"op": "remove", "path": "/e/0/value"}, id="remove-missing"),
        pytest.param({"op": "add", "path": "/x/y", "value": 1}, id="parent-missing"),
        pytest.param({"op": "add", "path": "/null/y", "value": 1}, id="parent-null"),
        pytest.param({"op": "add", "path": "/e/5", "value": 1}, id="beyond-the-list"),
        pytest.param({"op": "add", "path": "/e/5/n", "value": 1}, id="no-such-item"),
        pytest.param({"op": "move", "path": "/e", "value": 1}, id="unknown-operation"),
    ],
)
def test_invalid_patch_is_refused_as_by_the_api_server(operation: dict[str, Any]) -> None:
    """So a test that applies our patches shows what a real server would do with them."""
    with pytest.raises(PatchError):
        apply({"e": [{"n": "A"}], "null": None}, [operation])
