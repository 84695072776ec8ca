"""What a fake node looks like."""

from __future__ import annotations

from typing import Any

import pytest

from tools.controlplane.fake_nodes import FakeNode, is_ready

READY = {"type": "Ready", "status": "True"}
NOT_READY = {"type": "Ready", "status": "False"}


def test_a_node_offers_what_it_was_given() -> None:
    """GPUs, MIG instances and further resources are capacity and allocatable alike."""
    node = FakeNode(
        name="n1",
        gpus=2,
        mig={"1g.10gb": 28},
        resources={"cpu": "8", "example.com/x": 3},
        labels={"zone": "a"},
    ).manifest()

    assert node["status"]["allocatable"] == node["status"]["capacity"]
    assert node["status"]["capacity"] == {
        "cpu": "8",
        "memory": "512Gi",
        "ephemeral-storage": "1Ti",
        "pods": "110",
        "nvidia.com/gpu": "2",
        "nvidia.com/mig-1g.10gb": "28",
        "example.com/x": "3",
    }
    assert node["metadata"]["labels"]["zone"] == "a"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}


def test_a_node_without_gpus_advertises_none() -> None:
    """Zero is not the same as absent: a node that advertises nothing takes any device number."""
    offered = FakeNode(name="n1").manifest()["status"]["capacity"]
    assert set(offered) == {"cpu", "memory", "ephemeral-storage", "pods"}


@pytest.mark.parametrize(
    ("conditions", "taints", "ready"),
    [
        pytest.param([READY], [], True, id="ready"),
        pytest.param([READY], ["gpu"], True, id="a-taint-of-its-own"),
        pytest.param([READY], ["node.kubernetes.io/not-ready"], False, id="not-yet-untainted"),
        pytest.param([NOT_READY], [], False, id="not-ready"),
        pytest.param(None, [], False, id="no-conditions-yet"),
    ],
)
def test_a_node_is_ready_when_its_condition_and_its_taints_say_so(
    conditions: list[dict[str, str]] | None, taints: list[str], ready: bool
) -> None:
    """The taint goes a moment after the condition comes."""
    node: dict[str, Any] = {
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {"conditions": conditions},
    }

    assert is_ready(node) is ready
