"""The present answer, the holders and the remedies of `gpuctl why`, on a real API server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Watcher, controlled, pod
from tests.unit.gpuctl.cli import CommandOutput, gpuctl
from tools.controlplane import ControlPlane
from tools.product import Product

GPU = "nvidia.com/gpu"
RESERVED = {"key": "gpu", "value": "reserved", "effect": "NoSchedule"}


@pytest.fixture
def here(cp: ControlPlane, namespace: str) -> Watcher:
    return Watcher(cp, namespace)


def ask(cp: ControlPlane, product: Product, *words: str) -> CommandOutput:
    """Ask as an administrator who reaches the leader."""
    url = f"http://127.0.0.1:{product.decisions_port}"
    return gpuctl("why", *words, "--kubeconfig", str(Path(cp.kubeconfig)), "--server", url)


def remedies(cp: ControlPlane, product: Product, namespace: str, name: str) -> dict[str, str]:
    """The text of each remedy's edits, and the node where the pod then starts."""
    told = json.loads(ask(cp, product, name, "-n", namespace, "-o", "json").out)
    return {
        " and ".join(edit["text"] for edit in one["edits"]): one["node"]
        for one in told["answer"]["outlook"].get("remedies", ())
    }


@pytest.mark.smoke
def test_impossible_request_never_starts_and_the_smaller_one_does(
    cp: ControlPlane, product: Product, here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("remedy-a", gpus=8)
    here.create(pod("big", limits={GPU: "16"}))
    here.wait_explained("big", "Insufficient nvidia.com/gpu")

    result = ask(cp, product, "big", "-n", here.namespace)
    found = remedies(cp, product, here.namespace, "big")
    here.create(pod("smaller", limits={GPU: "8"}))

    assert result.status == 2, result.err
    assert "can NEVER start here, even on empty nodes: it requests 16 nvidia.com/gpu" in result.out
    assert "request 8 nvidia.com/gpu instead of 16 -> starts now on remedy-a" in result.out
    assert found["request 8 nvidia.com/gpu instead of 16"] == "remedy-a"
    here.wait_bound_to({"remedy-a"})


def test_holders_are_named_and_the_end_of_one_lets_the_pod_start(
    cp: ControlPlane, product: Product, here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("remedy-b", gpus=8)
    here.create(pod("holder", limits={GPU: "6"}))
    here.wait_bound(1)
    here.create(pod("next", limits={GPU: "5"}))
    here.wait_explained("next", "Insufficient nvidia.com/gpu")

    result = ask(cp, product, "pod/next", "-n", here.namespace)
    found = remedies(cp, product, here.namespace, "next")
    cp.client.delete(here.path("Pod", "holder"))

    assert "CAN start later: when pods on 1 node end" in result.out
    assert "closest  remedy-b: 2 of 5 nvidia.com/gpu free" in result.out
    assert f"held by {here.namespace}/holder (6 nvidia.com/gpu, " in result.out
    assert "queue    1st of 1 by priority and age" in result.out
    delete = f"delete pod {here.namespace}/holder, which holds 6 nvidia.com/gpu"
    assert found[delete] == "remedy-b"
    assert found["request 2 nvidia.com/gpu instead of 5"] == "remedy-b"
    here.wait(
        "next to have the node",
        lambda seen: [p["spec"].get("nodeName") for p in seen] == ["remedy-b"],
    )


def test_tolerated_taint_starts_the_pod_on_the_named_node(
    cp: ControlPlane, product: Product, here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("remedy-c", gpus=2, taints=[RESERVED])
    here.create(pod("shy", limits={GPU: "1"}))
    here.wait_explained("shy", "untolerated taint")

    found = remedies(cp, product, here.namespace, "shy")
    here.create(pod("bold", limits={GPU: "1"}, tolerations=[{**RESERVED, "operator": "Equal"}]))

    assert found == {"tolerate gpu=reserved:NoSchedule": "remedy-c"}
    here.wait(
        "bold to have the node",
        lambda seen: "remedy-c" in [one["spec"].get("nodeName") for one in seen],
    )


def test_list_groups_pods_and_names_misspelt_schedulers(
    cp: ControlPlane, product: Product, here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("remedy-d", gpus=1)
    here.create(controlled("Deployment", "web", replicas=2, limits={GPU: "4"}))
    here.create(pod("typo", limits={GPU: "1"}, scheduler="gpu-schedular"))
    here.wait(
        "both replicas to be explained",
        lambda seen: sum("Insufficient" in json.dumps(one["status"]) for one in seen) == 2,
    )

    listed = ask(cp, product, "-n", here.namespace)
    owned = ask(cp, product, "deploy/web", "-n", here.namespace)
    everywhere = ask(cp, product, "-A", "-l", "app=web", "-o", "json")

    assert listed.status == 2, listed.err
    assert "2 pods: Insufficient nvidia.com/gpu" in listed.out
    assert "request 1 nvidia.com/gpu instead of 4 -> starts now on remedy-d" in listed.out
    assert "did you mean spec.schedulerName: gpu-scheduler?" in listed.out
    assert "2 pods: Insufficient nvidia.com/gpu" in owned.out
    assert "typo" not in owned.out
    [group] = json.loads(everywhere.out)["groups"]
    assert {one["namespace"] for one in group["pods"]} == {here.namespace}
    assert group["outlook"]["canStart"] == "never"
