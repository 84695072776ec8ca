"""Nodes in the order of their free capacity, whatever amounts their pods hold."""

from __future__ import annotations

import pytest

from tests.best_node import best_node
from tests.builders import cluster, node, pod

#: The greatest amount of a resource that a quantity may have.
MOST = str(2**63 - 1)


@pytest.mark.parametrize("holders", [0, 1, 20])
def test_node_with_overcommitted_cpu_takes_a_pod_without_requests(
    holders: int,
) -> None:
    held = [pod(f"held-{number}", requests={"cpu": MOST}, node="n1") for number in range(holders)]
    state = cluster(node("n1", gpus=1), *held)

    found = best_node(state, pod("small", gpus=1, requests={}))

    assert found is not None
