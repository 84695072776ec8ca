"""``gpuctl verify`` on a real kubelet with the fake operator's device plugin."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.containers import SHELL_IMAGE
from tools.controlplane import ControlPlane
from tools.product import ROOT
from tools.realnode import RealNode

VERIFY_S = 280


@pytest.mark.contract("S4-18")
def test_container_of_a_test_pod_sees_its_gpu(cp: ControlPlane, eight: RealNode) -> None:
    """No check fails, and the namespace is gone; the plugin is a program here and no pod."""
    words = ("--image", SHELL_IMAGE, "-o", "json", "--kubeconfig", str(cp.kubeconfig))
    done = subprocess.run(
        [sys.executable, "-m", "gpuctl", "verify", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=VERIFY_S,
    )

    found = {one["about"]: one for one in json.loads(done.stdout)["findings"]}
    assert done.returncode == 0, done.stdout
    assert found["place"]["says"].startswith(f"1-GPU pod on {eight.name} after ")
    assert found["place"]["says"].endswith("nvidia-smi sees 1 GPU")
    assert found["honours"]["says"].endswith("and the pod has it")
    assert found["plugin"]["level"] == "WARN"
    assert found["cleanup"]["level"] == "OK"
    names = {one["metadata"]["name"] for one in cp.client.get("/api/v1/namespaces")["items"]}
    assert not {name for name in names if name.startswith("gpu-verify-")}
