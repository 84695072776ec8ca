"""``gpuctl verify`` as a process on the real API server: how it ends on a signal."""

from __future__ import annotations

import json
import signal
import subprocess
import sys

import pytest

from gpuctl.verify.trial_namespace import LABELS, PRIORITY_CLASSES
from tests.controlplane.conftest import MakeNode
from tools.controlplane import ControlPlane, wait_until
from tools.product import ROOT

PREFIX = "gpu-verify-"
#: Longer than the test: the pod waits for a scheduler until the signal.
TIMEOUT_S = 120
END_S = 180


def names(cp: ControlPlane, path: str) -> set[str]:
    items = cp.client.get(path)["items"]
    return {one["metadata"]["name"] for one in items if one["metadata"]["name"].startswith(PREFIX)}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda one: one.name)
def test_signal_removes_the_test_pods_and_keeps_the_findings(
    cp: ControlPlane, kwok_node: MakeNode, number: signal.Signals
) -> None:
    """No scheduler runs here, so the first test pod waits.

    A shell in the background ignores SIGINT, and its processes inherit that: ``env`` resets it.
    """
    kwok_node("verified", gpus=2)
    words = ("--timeout", str(TIMEOUT_S), "-o", "json", "--kubeconfig", str(cp.kubeconfig))
    with subprocess.Popen(
        ["env", "--default-signal", sys.executable, "-m", "gpuctl", "verify", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            wait_until(lambda: _has_pod(cp), what="the first test pod")
            process.send_signal(number)
            said, errors = process.communicate(timeout=END_S)
        finally:
            process.kill()

    result = json.loads(said)
    assert process.returncode == 128 + number
    assert errors == "removing the test pods ...\n"
    assert result["endedBy"] == f"signal {number.name}"
    found = {one["about"]: one["level"] for one in result["findings"]}
    assert found["resources"] == "OK"
    assert found["cleanup"] == "OK"
    assert names(cp, "/api/v1/namespaces") == set()
    assert names(cp, PRIORITY_CLASSES) == set()


def _has_pod(cp: ControlPlane) -> bool:
    label = "app.kubernetes.io/managed-by"
    found = cp.client.get(f"/api/v1/namespaces?labelSelector={label}={LABELS[label]}")["items"]
    return any(
        cp.client.get(f"/api/v1/namespaces/{one['metadata']['name']}/pods")["items"]
        for one in found
    )
