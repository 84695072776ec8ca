"""A StatefulSet as training jobs have it: claims, anti-affinity, GPUs and a map, on a real node
beside KWOK nodes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.controlplane.workloads import PATHS, Watcher, annotation, node_of
from tests.e2e.agent import DEVICES, GPU, indexes
from tests.e2e.containers import FOREVER, Json, delete, execute, shell_pod, wait_for_phase
from tests.e2e.local_volumes import VOLUMES, LocalVolume, local_volumes
from tools.controlplane import ControlPlane, FakeNode, add_nodes, wait_until
from tools.realnode import RealNode

CLASS: Final = "training-disks"
LABELS: Final = {"app": "train"}
#: The first of them has a volume; the others have GPUs only.
KWOK_NODES: Final = ("training-1", "training-2", "training-3")
#: Of nodes whose device plugin gives a pod the GPUs that were chosen.
NUMBERED: Final = {DEVICES: "numbered"}


@pytest.fixture
def disk(cp: ControlPlane, eight: RealNode, tmp_path: Path) -> Iterator[Path]:
    """The folder of the real node's volume; one KWOK node has a volume too."""
    add_nodes(cp.client, [FakeNode(name=name, gpus=8, labels=NUMBERED) for name in KWOK_NODES])
    volumes = (
        LocalVolume("real-disk", eight.name, tmp_path),
        LocalVolume("kwok-disk", KWOK_NODES[0], Path("/mnt/disk")),
    )
    with local_volumes(cp, CLASS, volumes):
        yield tmp_path
    for name in KWOK_NODES:
        cp.client.delete_if_there(f"/api/v1/nodes/{name}")


def stateful_set(text: str) -> Json:
    """Two replicas that keep away from each other, with two GPUs and a claim each."""
    command = f"echo $HOSTNAME >> /data/starts; {FOREVER}"
    template = shell_pod(
        "unused",
        command=command,
        limits={GPU: "2"},
        labels=LABELS,
        annotations={"gpu-scheduling-map": text},
        schedulerName="gpu-scheduler",
        affinity=_apart(),
    )
    del template["metadata"]["name"]
    template["spec"]["restartPolicy"] = "Always"
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": "500Mi"}},
        },
    }
    body = {
        "serviceName": "train",
        "replicas": 2,
        "selector": {"matchLabels": LABELS},
        "template": template,
        "volumeClaimTemplates": [claim],
    }
    meta = {"name": "train"}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": body}


def _apart() -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": LABELS}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def volume_of(cp: ControlPlane, namespace: str, replica: int) -> Any:
    """The volume that a replica's claim is bound to; the PV controller writes the phase last."""
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/data-train-{replica}"
    claim = cp.client.wait_for(
        path, lambda seen: seen["status"].get("phase") == "Bound", what=f"claim {replica} bound"
    )
    return claim["spec"]["volumeName"]


def wait_content(path: Path, text: str) -> None:
    """Wait until a container has written this: it is Running before its first command."""
    wait_until(lambda: path.exists() and path.read_text() == text, what=f"{text!r} in {path.name}")


def test_mapped_statefulset_runs_on_the_nodes_of_its_volumes(
    cp: ControlPlane, eight: RealNode, here: Watcher, disk: Path
) -> None:
    """Replica 0 runs on the real node with its GPUs and its files, also when it is created again;
    replica 1 is bound to the node of the other volume."""
    here.create(stateful_set(f"0={eight.name}:6,3\n1={KWOK_NODES[0]}:1,4\n"))
    first = wait_for_phase(cp, here.namespace, "train-0", "Running")
    second = wait_for_phase(cp, here.namespace, "train-1", "Running")

    assert (node_of(first), node_of(second)) == (eight.name, KWOK_NODES[0])
    assert annotation(second, DEVICES) == "gpu:1,4"
    assert indexes(cp, eight, here.namespace, "train-0") == [3, 6]
    assert volume_of(cp, here.namespace, 0) == "real-disk"
    assert volume_of(cp, here.namespace, 1) == "kwok-disk"
    wait_content(disk / "starts", "train-0\n")

    cp.client.delete(f"{here.pods_path}/train-0?gracePeriodSeconds=1")
    here.wait(
        "another train-0 to run",
        lambda items: any(
            one["metadata"]["name"] == "train-0"
            and one["metadata"]["uid"] != first["metadata"]["uid"]
            and one["status"].get("phase") == "Running"
            for one in items
        ),
        timeout_s=240,
    )
    wait_content(disk / "starts", "train-0\ntrain-0\n")
    words = ("sh", "-c", "cat /data/starts")
    assert execute(cp, here.namespace, "train-0", *words) == "train-0\ntrain-0\n"
    assert indexes(cp, eight, here.namespace, "train-0") == [3, 6]

    cp.client.delete(f"{PATHS['StatefulSet'].format(here.namespace)}/train")
    for replica in range(2):
        delete(cp, here.namespace, f"train-{replica}")
    assert cp.client.get(f"{VOLUMES}/real-disk")["spec"]["claimRef"]["name"] == "data-train-0"
