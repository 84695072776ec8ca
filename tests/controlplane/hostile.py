"""Objects that a hostile tenant sends: valid for the API server, meant to stop or mislead us.

Each builder returns a whole object. Sizes are arguments, so that a test can take the size that
was a fault once, and a long run a smaller one.
"""

from __future__ import annotations

import json
from typing import Any, Final

from scheduler.model import well_known
from tests.controlplane.workloads import Json, controlled, pod
from tools.controlplane import FakeNode

BIG: Final = "nvidia.com/mig-2g.20gb"
SMALL: Final = "nvidia.com/mig-1g.10gb"
GPU: Final = "nvidia.com/gpu"
ELSEWHERE: Final = "another-scheduler"
#: More digits than Python's int() reads.
DIGITS: Final = "9" * 5000
#: The taint of a node for hostile pods alone, and what such a pod says.
KEEP_OUT: Final = "example.com/hostile"
TOLERATES: Final = [{"key": KEEP_OUT, "operator": "Exists"}]
#: The largest quantity that the API server stores as it is.
MOST: Final = 2**63 - 1


def dynamic_mig_node(name: str) -> FakeNode:
    """A dynamic MIG node without an operator; only pods that tolerate its taint are placed
    there.
    """
    labels = {
        well_known.MIG_DYNAMIC: "true",
        well_known.GPU_PRODUCT: "NVIDIA-A100-SXM4-80GB",
        well_known.GPU_MEMORY: "81920",
        well_known.GPU_COUNT: "8",
    }
    taint = {"key": KEEP_OUT, "effect": "NoSchedule"}
    return FakeNode(name=name, labels=labels, taints=[taint])


def mig_count(name: str, count: int) -> Json:
    """A pod that requests more slices than any machine has."""
    return pod(name, limits={BIG: str(count)})


def unreadable_move(name: str) -> Json:
    """A pod of another scheduler with a migration whose attempt is not an int."""
    annotations = {
        well_known.FALLBACK: "2g.20gb->1g.10gb",
        well_known.ORIGINAL: "{}",
        well_known.MIGRATION: f"a-{DIGITS}-b",
    }
    return pod(name, annotations=annotations, scheduler=ELSEWHERE)


def unreadable_tier_nodes(name: str) -> Json:
    """A Deployment that waits for MIG, with a node condition that int() does not read."""
    annotations = {
        well_known.TIER_NODES: f"nvidia.com/gpu.memory>={DIGITS}",
        well_known.MIG_FALLBACK: "off",
    }
    return controlled("Deployment", name, replicas=1, annotations=annotations, limits={BIG: "4"})


def nested_original(name: str, depth: int = 5000) -> Json:
    """A Deployment on a small slice; its original holds lists in lists."""
    return _with_original(name, "[" * depth + "]" * depth)


def huge_original(name: str, **spec: Any) -> Json:
    """A Deployment on a small slice; its original request is larger than any machine."""
    return _with_original(name, json.dumps(str(MOST)), **spec)


def _with_original(name: str, count: str, **spec: Any) -> Json:
    text = f'{{"app":{{"limits":{{"{BIG}":{count}}}}}}}'
    annotations = {well_known.FALLBACK: "2g.20gb->1g.10gb", well_known.ORIGINAL: text}
    limits = {SMALL: "1"}
    return controlled(
        "Deployment", name, replicas=1, annotations=annotations, limits=limits, **spec
    )


def local_devices(name: str, count: int, node: str) -> Json:
    """A pod whose index has no line in its map, with this many GPUs to number."""
    annotations = {well_known.MAP: f"0={node}:0", well_known.CUDA_MODE: "local"}
    return pod(name, annotations=annotations, limits={GPU: str(count)})


def map_past_the_scheduler(name: str, node: str) -> Json:
    """A pod that is on its node at once, with a map that no scheduler has checked."""
    return pod(name, annotations={well_known.MAP: f"0={node}:0"}, nodeName=node)


def affinity_terms(name: str, terms: int) -> Json:
    """A pod whose affinity has this many terms, each with a label key of its own."""
    wanted = [
        {"matchExpressions": [{"key": f"{name}-{n}", "operator": "In", "values": ["a"]}]}
        for n in range(terms)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": wanted}}
    return pod(name, limits={GPU: "1"}, affinity={"nodeAffinity": required})


def forged_reservation(name: str, slices: int = 1) -> Json:
    """A pod that no scheduler places, with a forged reservation."""
    annotations = {well_known.RESERVATION: "r-forged"}
    return pod(name, annotations=annotations, limits={BIG: str(slices)}, scheduler=ELSEWHERE)


def many_annotations(name: str, count: int) -> Json:
    """A pod of another scheduler that the admission policies have to read."""
    annotations = {f"example.com/{n}": "" for n in range(count)}
    return pod(name, annotations=annotations, scheduler=ELSEWHERE)
