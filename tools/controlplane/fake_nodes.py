"""Nodes simulated by KWOK: they advertise GPUs, and pods on them become Running.

KWOK does not run a kubelet's admission checks (too many GPUs, for example), so tests must check
that themselves. It does not change capacity and allocatable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools.controlplane.client import Client
from tools.controlplane.commands import NODE_ANNOTATION

GPU: Final = "nvidia.com/gpu"
MIG_PREFIX: Final = "nvidia.com/mig-"
NOT_READY_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
NODES: Final = "/api/v1/nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeNode:
    """The properties of a fake node."""

    name: str
    gpus: int = 0
    #: Profile, as in ``1g.10gb``, to the number of instances.
    mig: Mapping[str, int] = field(default_factory=dict)
    #: Further resources, or other values for cpu, memory, ephemeral-storage and pods.
    resources: Mapping[str, str | int] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Iterable[Mapping[str, str]] = ()

    def manifest(self) -> dict[str, Any]:
        """Return the Node object."""
        capacity: dict[str, str] = {
            "cpu": "64",
            "memory": "512Gi",
            "ephemeral-storage": "1Ti",
            "pods": "110",
        }
        if self.gpus:
            capacity[GPU] = str(self.gpus)
        capacity |= {MIG_PREFIX + profile: str(count) for profile, count in self.mig.items()}
        capacity |= {name: str(value) for name, value in self.resources.items()}
        key, value = NODE_ANNOTATION
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "type": "kwok",
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": labels | dict(self.labels),
                "annotations": {key: value} | dict(self.annotations),
            },
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": {"capacity": capacity, "allocatable": dict(capacity)},
        }


def add_nodes(client: Client, nodes: Iterable[FakeNode], *, timeout_s: float = 60.0) -> None:
    """Create fake nodes and return when all of them are ready for pods."""
    with client.kept() as kept:
        names = {kept.create(NODES, node.manifest())["metadata"]["name"] for node in nodes}
    waited = f"{len(names)} nodes to be Ready"

    def all_ready(answer: Any) -> bool:
        ready = {node["metadata"]["name"] for node in answer["items"] if is_ready(node)}
        return names <= ready

    client.wait_for(NODES, all_ready, what=waited, timeout_s=timeout_s)


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether a node is Ready and has no not-ready taints."""
    conditions = node["status"].get("conditions") or []
    taints = {taint["key"] for taint in node["spec"].get("taints") or []}
    return not taints.intersection(NOT_READY_TAINTS) and any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
