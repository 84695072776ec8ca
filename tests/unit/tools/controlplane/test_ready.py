"""A node counts as ready by the value of its condition, not by the condition's name."""

from __future__ import annotations

from typing import Any

import pytest

from tools.controlplane.fake_nodes import is_ready


def node(status: str, *taints: str) -> dict[str, Any]:
    return {
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": status},
            ]
        },
    }


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(node("True"), True, id="ready"),
        pytest.param(node("False"), False, id="not-ready"),
        pytest.param(node("Unknown"), False, id="silent"),
        pytest.param(node("True", "node.kubernetes.io/not-ready"), False, id="still-tainted"),
        pytest.param({"spec": {}, "status": {}}, False, id="no-conditions-yet"),
    ],
)
def test_is_ready(seen: dict[str, Any], expected: bool) -> None:
    assert is_ready(seen) is expected
