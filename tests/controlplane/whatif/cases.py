"""Random clusters, changes and manifests for ``gpuctl whatif``, each from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.controlplane.whatif.cluster_objects import (
    HIGH,
    WorkloadVolume,
    template_of,
    use_data,
    use_devices,
)
from tests.controlplane.workloads import Json, controlled, job, pod
from tests.storage import ZONE
from tools.controlplane import FakeNode

H100: Final = "NVIDIA-H100-80GB-HBM3"
A100: Final = "NVIDIA-A100-SXM4-80GB"
GPU: Final = "nvidia.com/gpu"
PRODUCT, COUNT = "nvidia.com/gpu.product", "nvidia.com/gpu.count"
ZONES: Final = ("a", "b")
TAINT: Final = {"key": "team", "value": "reserved", "effect": "NoSchedule"}
TOLERATION: Final = {"key": "team", "operator": "Exists"}
#: The instances of one GPU.
LAYOUTS: Final = (
    {"1g.10gb": 7},
    {"2g.20gb": 3, "1g.10gb": 1},
    {"3g.40gb": 2},
    {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2},
)
DEVICE_COUNTS: Final = (1, 2)
PROFILES: Final = ("1g.10gb", "2g.20gb", "3g.40gb")
SHARE_OF_GPU_NODES: Final = 0.5
#: Nodes whose GPUs are devices of DRA, and workloads that want such ones.
SHARE_OF_DEVICES: Final = 0.2
SHARE_WITH_DATA: Final = 0.2
SHARE_OF_URGENT: Final = 0.15
SHARE_OF_URGENT_MANIFESTS: Final = 0.4


@dataclass(frozen=True)
class Case:
    """A cluster with its pods, and the question; ``change`` are the words of the command line.

    ``devices`` are the numbers of DRA devices by node.
    """

    nodes: tuple[FakeNode, ...]
    devices: dict[str, int]
    data: tuple[WorkloadVolume, ...]
    before: tuple[Json, ...]
    budgets: tuple[Json, ...]
    manifest: Json
    change: tuple[str, ...]
    layouts: dict[str, dict[str, int]]

    def node(self, name: str) -> FakeNode:
        """The node of this name."""
        return next(one for one in self.nodes if one.name == name)


def random_case(seed: int) -> Case:
    """The case of a seed."""
    rng = Random(seed)
    nodes = tuple(_node(rng, f"whatif-{seed}-{at}") for at in range(rng.randint(3, 8)))
    devices = {one.name: rng.choice((2, 4)) for one in nodes if not (one.gpus or one.mig)}
    before = tuple(_workload(rng, f"before-{at}") for at in range(rng.randint(2, 6)))
    budgets = tuple(_budget(rng, one) for one in before if _is_budgeted(rng, one))
    change, layouts = _change(rng, nodes)
    kind = rng.choice(("Deployment", "StatefulSet", "Job"))
    manifest = _with_wish(rng, kind, "asked", rng.randint(1, 8), SHARE_OF_URGENT_MANIFESTS)
    data = tuple(
        use_data(rng, one, f"whatif-{seed}-{at}", nodes, ZONES)
        for at, one in enumerate((*before, manifest))
        if rng.random() < SHARE_WITH_DATA
    )
    return Case(nodes, devices, data, before, budgets, manifest, tuple(change), layouts)


def _node(rng: Random, name: str) -> FakeNode:
    labels = {ZONE: rng.choice(ZONES)}
    taints = (TAINT,) if rng.random() < 0.15 else ()
    if rng.random() < SHARE_OF_DEVICES:
        return FakeNode(name=name, labels=labels, taints=taints)
    if rng.random() < SHARE_OF_GPU_NODES:
        gpus = rng.choice((2, 4, 8))
        labels |= {PRODUCT: H100, COUNT: str(gpus)}
        return FakeNode(name=name, gpus=gpus, labels=labels, taints=taints)
    gpus = rng.choice((1, 2))
    labels |= {PRODUCT: A100, COUNT: str(gpus)}
    mig = {profile: gpus * count for profile, count in rng.choice(LAYOUTS).items()}
    return FakeNode(name=name, mig=mig, labels=labels, taints=taints)


def _wish(rng: Random) -> Json:
    """What a pod requests, and where it may go."""
    if rng.random() < SHARE_OF_GPU_NODES:
        wish: Json = {"limits": {GPU: str(rng.choice((1, 1, 2, 4)))}}
    else:
        wish = {"limits": {f"nvidia.com/mig-{rng.choice(PROFILES)}": "1"}}
    if rng.random() < 0.2:
        wish["nodeSelector"] = {ZONE: rng.choice(ZONES)}
    if rng.random() < 0.3:
        wish["tolerations"] = [TOLERATION]
    return wish


def _workload(rng: Random, name: str) -> Json:
    kind = rng.choices(("Deployment", "StatefulSet", "Pod", "Job"), (6, 3, 2, 1))[0]
    return _with_wish(rng, kind, name, rng.randint(1, 4), SHARE_OF_URGENT)


def _with_wish(rng: Random, kind: str, name: str, count: int, urgent: float) -> Json:
    """A workload with random requests; with a high priority in this share of cases."""
    wish, wants_devices = _wish(rng), rng.random() < SHARE_OF_DEVICES
    if wants_devices:
        del wish["limits"]
    body = _of_kind(kind, name, count, **wish)
    if wants_devices:
        use_devices(body, rng.choice(DEVICE_COUNTS))
    if rng.random() < urgent:
        template_of(body)["spec"]["priorityClassName"] = HIGH
    return body


def _of_kind(kind: str, name: str, count: int, **wish: Any) -> Json:
    if kind == "Pod":
        return pod(name, **wish)
    if kind == "Job":
        return job(name, completions=count, **wish)
    return controlled(kind, name, replicas=count, **wish)


def _is_budgeted(rng: Random, one: Json) -> bool:
    return one["kind"] in ("Deployment", "StatefulSet") and rng.random() < 0.3


def _budget(rng: Random, one: Json) -> Json:
    """None of its pods may go, or one at a time."""
    name = one["metadata"]["name"]
    strict = {"minAvailable": one["spec"]["replicas"]}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            **rng.choice((strict, {"maxUnavailable": 1})),
        },
    }


def _change(rng: Random, nodes: tuple[FakeNode, ...]) -> tuple[list[str], dict[str, Any]]:
    words: list[str] = []
    layouts: dict[str, dict[str, int]] = {}
    kinds = rng.sample(("add", "drain", "layout"), rng.randint(1, 3))
    if "add" in kinds:
        words += ["--add-nodes", f"like={rng.choice(nodes).name}:{rng.randint(1, 3)}"]
    mig = [one for one in nodes if one.mig]
    if "layout" in kinds and mig:
        name = rng.choice(mig).name
        layouts[name] = rng.choice(LAYOUTS)
        text = ",".join(f"{profile}:{count}" for profile, count in layouts[name].items())
        words += ["--layout", f"{name}={text}"]
    others = [one for one in nodes if one.name not in layouts]
    if "drain" in kinds or not words:
        for one in rng.sample(others, min(len(others), rng.randint(1, 2))):
            words += ["--drain", one.name]
    return words, layouts
