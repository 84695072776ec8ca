"""The nodes and pods of a large cluster, as the API server lists them. Pure.

An object has the fields that clusters write, also those that the scheduler skips: managedFields,
volumes, conditions and images. A pod has about 4 kB and a node about 7 kB. Half of the running pods
hold a GPU and were bound by this scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from bench.cluster_fixture import node_body

Json = dict[str, Any]
#: Objects per part of a list.
PART = 500
CREATED = "2026-11-27T12:00:00Z"
_NUMBER, _NODE = "@NUMBER@", "@NODE@"
_IMAGE = "registry.example.com/team-07/train:2026.11.3"
_CONTAINER_STATUS: Json = {
    "name": "main",
    "ready": True,
    "restartCount": 0,
    "image": _IMAGE,
    "imageID": f"registry.example.com/team-07/train@sha256:{'0' * 64}",
    "state": {"running": {"startedAt": CREATED}},
}


def managed(fields: int) -> list[Json]:
    """The managedFields of an object with this number of written fields."""
    owned: Json = {f"f:field{number:03}": {"f:part": {}, ".": {}} for number in range(fields)}
    return [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": CREATED,
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": owned, "f:spec": owned},
        }
        for manager in ("kube-controller-manager", "kubelet")
    ]


def _condition(kind: str) -> Json:
    return {"type": kind, "status": "True", "lastTransitionTime": CREATED, "lastProbeTime": None}


def _owner(app: str) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"{app}-5d9c7b8f4",
        "uid": "77777777-0000-4000-8000-000000000017",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod(*, with_gpu: bool) -> Json:
    """A running pod with placeholders for its number and its node."""
    amounts = {"cpu": "2", "memory": "8Gi"} | ({"nvidia.com/gpu": "1"} if with_gpu else {})
    ours = {"gpu-scheduler.io/decision": f"{_NUMBER}-7f3a91c2", "gpu-scheduler.io/epoch": "7"}
    mount = {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    source = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    app = "app-17"
    return {
        "metadata": {
            "name": f"{app}-5d9c7b8f4-{_NUMBER}",
            "generateName": f"{app}-5d9c7b8f4-",
            "namespace": "team-07",
            "uid": f"8f0b2d1e-0000-4000-8000-{_NUMBER}",
            "resourceVersion": f"1{_NUMBER}",
            "creationTimestamp": CREATED,
            "labels": {"app": app, "pod-template-hash": "5d9c7b8f4", "tier": "train"},
            "annotations": ours if with_gpu else {},
            "ownerReferences": [_owner(app)],
            "managedFields": managed(12),
        },
        "spec": {
            "schedulerName": "gpu-scheduler" if with_gpu else "default-scheduler",
            "nodeName": _NODE,
            "priority": 0,
            "restartPolicy": "Always",
            "serviceAccountName": "default",
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"}
                for key in ("not-ready", "unreachable")
            ],
            "volumes": [{"name": "token", "projected": {"sources": [source]}}],
            "containers": [
                {
                    "name": "main",
                    "image": _IMAGE,
                    "command": ["python", "-m", "train", "--config", "/etc/train/config.yaml"],
                    "env": [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(8)],
                    "resources": {"requests": amounts, "limits": amounts},
                    "volumeMounts": [mount],
                }
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.1.2.3",
            "startTime": CREATED,
            "conditions": [
                _condition(kind)
                for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
            ],
            "containerStatuses": [_CONTAINER_STATUS],
        },
    }


def node(number: int) -> Json:
    """A node of ``bench/cluster_fixture`` with images, conditions and managedFields."""
    body = node_body(number)
    body["metadata"] |= {"resourceVersion": str(number + 1), "managedFields": managed(20)}
    body["status"] |= {
        "capacity": body["status"]["allocatable"],
        "conditions": [_condition(kind) for kind in ("Ready", "MemoryPressure", "DiskPressure")],
        "images": [
            {
                "names": [f"registry.example.com/image-{n}@sha256:{'0' * 64}"],
                "sizeBytes": 10**8 + n,
            }
            for n in range(25)
        ],
        "nodeInfo": {"bootID": f"b-{number}", "kubeletVersion": "v1.37.2"},
    }
    return body


def node_parts(count: int) -> Iterator[list[bytes]]:
    """The nodes, in parts."""
    for first in range(0, count, PART):
        yield [
            msgspec.json.encode(node(number)) for number in range(first, min(count, first + PART))
        ]


def pod_parts(count: int, nodes: int, pending: list[Json]) -> Iterator[list[bytes]]:
    """The pending pods, then the running ones, spread over the nodes with the resources of
    each.
    """
    yield [msgspec.json.encode(body) for body in pending]
    templates = [msgspec.json.encode(pod(with_gpu=number == 1)) for number in range(2)]
    numbered = [_holes(template) for template in templates]
    for first in range(0, count, PART):
        part = []
        for number in range(first, min(count, first + PART)):
            place = number % nodes
            # Two of three nodes have GPUs, eight each.
            has_gpu = place % 3 < 2 and number // nodes % 2 == 0 and number // nodes < 16
            part.append(_filled(numbered[has_gpu], number, place))
        yield part


def _holes(template: bytes) -> list[bytes]:
    """The bytes between the placeholders; a node's follow an odd mark."""
    marked = template.replace(_NODE.encode(), b"\0n\0").replace(_NUMBER.encode(), b"\0i\0")
    return marked.split(b"\0")


def _filled(pieces: list[bytes], number: int, place: int) -> bytes:
    index, name = b"%012d" % number, b"node-%05d" % place
    return b"".join(index if p == b"i" else name if p == b"n" else p for p in pieces)
