"""Local volumes on the real kubelet: a claim waits for its pod, and its files are there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.containers import FOREVER, create, delete, execute, run, shell_pod, wait_for_phase
from tests.e2e.local_volumes import LocalVolume, local_volumes
from tests.storage import claim_json, uses
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product
from tools.realnode import RealNode

NAME: Final = "local-disks"
#: The part of a pod's spec that names our scheduler and the claim.
USER: Final = {"schedulerName": "gpu-scheduler", **uses("data")}


@pytest.fixture
def disks(
    cp: ControlPlane, node: RealNode, product: Product, tmp_path: Path
) -> Iterator[dict[str, Path]]:
    """Two local volumes of the node, by name; a claim of the class waits for its first pod."""
    assert product.is_running("scheduler")
    found = {"small": tmp_path / "small", "large": tmp_path / "large"}
    for path in found.values():
        path.mkdir()
    sizes = {"small": "1Gi", "large": "9Gi"}
    volumes = [LocalVolume(name, node.name, found[name], size) for name, size in sizes.items()]
    with local_volumes(cp, NAME, volumes):
        yield found


def claim(cp: ControlPlane, namespace: str, name: str, storage: str) -> str:
    """A claim; returns its path."""
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    body = claim_json(name, storage=storage, class_name=NAME)
    cp.client.create(path, {**body, "metadata": {"name": name}})
    return f"{path}/{name}"


def test_a_pod_writes_to_the_local_volume_that_its_claim_got(
    cp: ControlPlane, node: RealNode, namespace: str, disks: dict[str, Path]
) -> None:
    """Bound on the node of the pod, mounted by the kubelet, and still there for the next pod."""
    path = claim(cp, namespace, "data", "500Mi")
    pod = shell_pod("writer", command=f"echo kept > /data/file; {FOREVER}", **USER)
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]

    running = run(cp, namespace, pod)

    assert running["spec"]["nodeName"] == node.name
    assert cp.client.get(path)["spec"]["volumeName"] == "small"
    # A container is Running before its first command.
    file = disks["small"] / "file"
    wait_until(lambda: file.exists() and file.read_text() == "kept\n", what="the file")

    delete(cp, namespace, "writer")
    pod["metadata"]["name"] = "reader"
    pod["spec"]["containers"][0]["args"] = [FOREVER]
    create(cp, namespace, pod)
    wait_for_phase(cp, namespace, "reader", "Running")
    assert execute(cp, namespace, "reader", "sh", "-c", "cat /data/file") == "kept\n"
    delete(cp, namespace, "reader")
