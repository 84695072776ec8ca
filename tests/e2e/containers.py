"""Pods that really run, and how to look into them."""

from __future__ import annotations

from typing import Any, Final

from tools.controlplane import ControlPlane

Json = dict[str, Any]
SHELL_IMAGE: Final = "localhost/shell:1"
FOREVER: Final = "trap exit TERM; while :; do sleep 1; done"


def shell_pod(
    name: str,
    *,
    command: str = FOREVER,
    limits: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A pod whose container runs a line of shell."""
    container: Json = {
        "name": "main",
        "image": SHELL_IMAGE,
        "imagePullPolicy": "Never",
        "args": [command],
        "resources": {"limits": limits or {}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {
            "containers": [container],
            "terminationGracePeriodSeconds": 1,
            "restartPolicy": "Never",
            **spec,
        },
    }


def one_gpu_pod(name: str, scheduler: str = "gpu-scheduler") -> Json:
    """The one spec for nodes with a device plugin and for nodes with a DRA driver."""
    return shell_pod(name, limits={"nvidia.com/gpu": "1"}, schedulerName=scheduler)


def create(cp: ControlPlane, namespace: str, pod: Json) -> str:
    """Create a pod; its name."""
    return str(cp.client.create(f"/api/v1/namespaces/{namespace}/pods", pod)["metadata"]["name"])


def wait_for_phase(cp: ControlPlane, namespace: str, name: str, phase: str) -> Json:
    """Wait until a pod has a phase; the pod then."""
    seen: Json = cp.client.wait_for(
        f"/api/v1/namespaces/{namespace}/pods/{name}",
        lambda pod: pod is not None and pod["status"].get("phase") == phase,
        what=f"pod {name} to be {phase}",
        timeout_s=240,
    )
    return seen


def run(cp: ControlPlane, namespace: str, pod: Json) -> Json:
    """Create a pod and wait until it runs."""
    return wait_for_phase(cp, namespace, create(cp, namespace, pod), "Running")


def execute(cp: ControlPlane, namespace: str, name: str, *words: str) -> str:
    """What a command prints in a pod's container."""
    return cp.kubectl("exec", "-n", namespace, name, "--", *words)


def delete(cp: ControlPlane, namespace: str, name: str) -> None:
    """Delete a pod and wait until it is gone."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    cp.client.delete_if_there(f"{path}?gracePeriodSeconds=1")
    cp.client.wait_for(path, lambda seen: seen is None, what=f"pod {name} to be gone")
