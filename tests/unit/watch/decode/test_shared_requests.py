"""Containers and pods with equal requests share them: a cluster has few different ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.pods.pod import Pod
from scheduler.watch.decode.pods import POD, to_pod

MANY = {f"example.com/r{number}": "1" for number in range(20)}


def decoded(name: str, limits: dict[str, Any], requests: dict[str, Any]) -> Pod:
    raw = {
        "metadata": {"name": name, "uid": name},
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": limits, "requests": requests}}]
        },
    }
    return to_pod(POD.decode(msgspec.json.encode(raw)))


def test_replicas_share_their_requests() -> None:
    one, other = (decoded(name, {"nvidia.com/gpu": "1"}, {"cpu": "500m"}) for name in "ab")

    assert one.requests is other.requests
    assert one.requests == {"nvidia.com/gpu": 1, "cpu": 500}
    assert one.containers[0].devices is other.containers[0].devices


@pytest.mark.parametrize("amount", ["2", 2, 2.0])
def test_equal_amounts_of_several_types_are_equal(amount: str | float) -> None:
    found = decoded("a", {}, {"cpu": amount, "memory": amount})

    assert found.requests == {"cpu": 2000, "memory": 2}
    assert [type(value) for value in found.requests.values()] == [int, int]


def test_requests_for_many_resources_are_not_kept() -> None:
    one, other = (decoded(name, {}, MANY) for name in "ab")

    assert one.requests == other.requests == dict.fromkeys(MANY, 1)
    assert one.requests is not other.requests
