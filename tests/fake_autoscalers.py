"""What both autoscalers say about a pod; the rules are those of the example autoscaler."""

from __future__ import annotations

from typing import Any

from tools.autoscaler.contract import Reading, requests_node


def wants_a_node(pod: dict[str, Any]) -> bool:
    """What both say; they must agree about every pod of ours."""
    found = {requests_node(pod, reading) for reading in Reading}
    assert len(found) == 1, "the autoscalers read this pod differently"
    return found.pop()
