"""The real node itself: pods run there, and nothing is left when it ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.e2e.containers import create, execute, run, shell_pod, wait_for_phase
from tools.controlplane import ControlPlane, ControlPlaneError
from tools.controlplane.client import wait_until
from tools.controlplane.process import command_line
from tools.realnode import RealNode
from tools.realnode.sandbox_processes import SANDBOX


def test_a_pod_runs_and_its_log_can_be_read(
    cp: ControlPlane, node: RealNode, namespace: str
) -> None:
    """A container of our own image runs to its end, and kubectl logs answers."""
    create(cp, namespace, shell_pod("hello", command="echo hello from $HOSTNAME"))
    seen = wait_for_phase(cp, namespace, "hello", "Succeeded")

    assert seen["spec"]["nodeName"] == node.name
    assert cp.kubectl("logs", "-n", namespace, "hello") == "hello from hello\n"


def test_a_command_runs_in_a_container(cp: ControlPlane, node: RealNode, namespace: str) -> None:
    """kubectl exec gets into a running container, with the environment that the pod says."""
    assert node.name
    run(cp, namespace, shell_pod("busy"))

    assert execute(cp, namespace, "busy", "sh", "-c", "echo $HOSTNAME") == "busy\n"


def test_a_restarted_kubelet_keeps_its_pods(
    cp: ControlPlane, node: RealNode, namespace: str
) -> None:
    """A pod goes on, in the same container, when the kubelet is killed and started again."""
    before = run(cp, namespace, shell_pod("survivor"))

    node.restart_kubelet(crash=True)

    after = wait_for_phase(cp, namespace, "survivor", "Running")
    container = [pod["status"]["containerStatuses"][0]["containerID"] for pod in (before, after)]
    assert container[0] == container[1]
    wait_until(lambda: _answers(cp, namespace), what="the new kubelet to know its pods")


def _answers(cp: ControlPlane, namespace: str) -> bool:
    try:
        return execute(cp, namespace, "survivor", "sh", "-c", "echo here") == "here\n"
    except ControlPlaneError:
        return False


def test_killed_sandbox_ends_all_its_processes(tmp_path: Path, node: RealNode) -> None:
    """When the process that holds a cell is killed, programs and mounts in it are gone."""
    assert node.name, "it needs root as the node does"
    words = [sys.executable, "-I", "-S", str(SANDBOX)]
    bind = f"{tmp_path / 'source'}:{tmp_path / 'target'}"
    holder = subprocess.Popen([*words, "hold", str(tmp_path), bind])
    try:
        wait_until((tmp_path / "sandbox.pid.ready").exists, what="the sandbox")
        inside = subprocess.Popen([*words, "enter", str(tmp_path), "sleep", "1000"])
        first = int((tmp_path / "sandbox.pid").read_text())
        mounts = Path(f"/proc/{first}/mounts")
        wait_until(lambda: str(tmp_path) in mounts.read_text(), what="the mount")
    finally:
        holder.kill()

    assert inside.wait(timeout=60) != 0
    holder.wait()
    assert command_line(first) == ""
    assert str(tmp_path / "target") not in Path("/proc/self/mounts").read_text()
