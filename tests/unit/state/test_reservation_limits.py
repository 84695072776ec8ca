"""With which priority a pod under review counts."""

from __future__ import annotations

import pytest

from scheduler.state.reservation_limits import counted_priority
from tests.builders import pod

USERS_MOST = 1_000_000_000

PRIORITIES = [
    pytest.param("team", 0, 0, id="none"),
    pytest.param("team", -7, -7, id="below-zero"),
    pytest.param("team", USERS_MOST, USERS_MOST, id="the-highest-of-users"),
    pytest.param("team", USERS_MOST + 1, -(2**31), id="a-number-that-no-class-can-have"),
    pytest.param("team", 2**31 - 1, -(2**31), id="the-highest-number"),
    pytest.param("team", 2_000_001_000, USERS_MOST, id="node-critical"),
    pytest.param("kube-system", 2_000_001_000, 2_000_001_000, id="node-critical-in-kube-system"),
    pytest.param("kube-system", 2_000_000_000, 2_000_000_000, id="cluster-critical"),
    pytest.param("kube-system", 2**31 - 1, -(2**31), id="no-class-in-kube-system-either"),
]


@pytest.mark.parametrize(("namespace", "sent", "counted"), PRIORITIES)
def test_priority_counts_only_as_the_api_server_resolves_it(
    namespace: str, sent: int, counted: int
) -> None:
    assert counted_priority(pod(namespace=namespace, priority=sent)) == counted
