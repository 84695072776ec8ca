"""scripts/verify.sh against a real API server: what it calls right, and what wrong."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.terminal import Terminal
from tools.controlplane import ControlPlane

Json = dict[str, Any]
MIG = "nvidia.com/mig-"
#: Node -> its pool, and the slices that it offers.
NODES: dict[str, tuple[str, dict[str, int]]] = {
    "verify-control-plane": ("", {}),
    "verify-small": ("small", {"1g.10gb": 28}),
    "verify-medium": ("medium", {"2g.20gb": 12, "1g.10gb": 4}),
}
DEPLOYMENT = "/apis/apps/v1/namespaces/gpu-webhook/deployments/gpu-webhook"
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
REGISTRATION = f"{REGISTRATIONS}/gpu-allocation-webhook"


def conditions(ready: str) -> list[Json]:
    """As a kubelet writes them: ``Ready`` is the fourth, whatever its status."""
    pressure = ("MemoryPressure", "DiskPressure", "PIDPressure")
    return [
        *({"type": name, "status": "False", "reason": "none"} for name in pressure),
        {"type": "Ready", "status": ready, "reason": "none"},
    ]


def set_status(cp: ControlPlane, node: str, slices: dict[str, int], ready: str = "True") -> None:
    offer = {MIG + profile: str(count) for profile, count in slices.items()}
    status = {"conditions": conditions(ready), "capacity": offer, "allocatable": offer}
    cp.client.patch(f"/api/v1/nodes/{node}/status", {"status": status})


def deployment(replicas: int) -> Json:
    labels = {"app": "gpu-webhook"}
    container = {"name": "webhook", "image": "none"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "gpu-webhook"}, "spec": spec}


def registration(authority: bytes) -> Json:
    """For a resource that does not exist: nothing is sent anywhere."""
    rule = {
        "apiGroups": ["none.example"],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["none"],
    }
    client = {"url": "https://127.0.0.1:1/none"}
    if authority:
        client["caBundle"] = base64.b64encode(authority).decode()
    entry = {
        "name": "none.example.com",
        "rules": [rule],
        "clientConfig": client,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {"metadata": {"name": "gpu-allocation-webhook"}, "webhooks": [entry]}


@pytest.fixture(scope="module")
def webhooks_namespace(cp: ControlPlane) -> Iterator[None]:
    """Once for all cases: a namespace takes its time to go."""
    cp.client.create("/api/v1/namespaces", {"metadata": {"name": "gpu-webhook"}})
    yield
    cp.client.delete("/api/v1/namespaces/gpu-webhook")


@pytest.fixture
def ready_cluster(cp: ControlPlane, webhooks_namespace: None) -> Iterator[ControlPlane]:
    """The simulated cluster as it is after setup and deploy-webhook."""
    try:
        for name, (pool, slices) in NODES.items():
            labels = {"node-pool": pool} if pool else {}
            cp.client.create("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
            set_status(cp, name, slices)
        cp.client.create(DEPLOYMENT.rpartition("/")[0], deployment(replicas=0))
        wait_available(cp, "True")
        cp.client.create(REGISTRATIONS, registration(cp.ca_certificate.read_bytes()))
        yield cp
    finally:
        for path in (REGISTRATION, DEPLOYMENT, *(f"/api/v1/nodes/{name}" for name in NODES)):
            cp.client.delete_if_there(path)


def wait_available(cp: ControlPlane, status: str) -> None:
    cp.client.wait_for(
        DEPLOYMENT,
        lambda seen: any(
            (one["type"], one["status"]) == ("Available", status)
            for one in seen.get("status", {}).get("conditions", ())
        ),
        what=f"the Deployment's condition Available to be {status}",
    )


def break_nothing(cp: ControlPlane) -> None:
    assert cp.client.get(DEPLOYMENT), "it is there"


def break_a_node(cp: ControlPlane) -> None:
    set_status(cp, "verify-small", {"1g.10gb": 28}, ready="False")


def break_the_slices(cp: ControlPlane) -> None:
    set_status(cp, "verify-medium", {"2g.20gb": 11, "1g.10gb": 4})


def break_the_webhook(cp: ControlPlane) -> None:
    """One pod is wanted, and no scheduler places it."""
    cp.client.patch(DEPLOYMENT, {"spec": {"replicas": 1}})
    wait_available(cp, "False")


def break_the_authority(cp: ControlPlane) -> None:
    cp.client.delete(REGISTRATION)
    cp.client.create(REGISTRATIONS, registration(b""))


CASES = [
    pytest.param(break_nothing, [], id="as-it-should-be"),
    pytest.param(break_a_node, ["nodes ready"], id="a-node-that-is-not-ready"),
    pytest.param(break_the_slices, ["2g.20gb on medium"], id="a-slice-too-few"),
    pytest.param(break_the_webhook, ["webhook available"], id="a-webhook-without-pods"),
    pytest.param(
        break_the_authority, ["webhook's CA in base64 begins with"], id="no-certificate-authority"
    ),
]


@pytest.mark.contract("S0-B12", "S0-30")
@pytest.mark.parametrize(("broken", "wrong"), CASES)
def test_verify_script_names_problems_and_exits_nonzero(
    ready_cluster: ControlPlane, tmp_path: Path, broken: Any, wrong: list[str]
) -> None:
    """A node is ready by the value of its condition, not by the condition's name."""
    broken(ready_cluster)

    ended = Terminal(ready_cluster, tmp_path / "home").type("scripts/verify.sh")

    lines = ended.stdout.splitlines()
    assert len(lines) == 6, ended.stderr
    assert [line.split(": ")[0] for line in lines if line.startswith("WRONG")] == [
        f"WRONG {what}" for what in wrong
    ]
    assert ended.returncode == (1 if wrong else 0)
