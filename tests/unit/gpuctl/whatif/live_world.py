"""Live states as values, and the answers on them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gpuctl.simulate.manifests import Document
from gpuctl.whatif.change import parse_change
from gpuctl.whatif.live_state import API, LiveState
from gpuctl.whatif.manifest import read_manifest
from gpuctl.whatif.question import answer, plan_of
from gpuctl.whatif.recreated_pods import from_pod
from gpuctl.whatif.result import WhatIf
from scheduler.config import Config
from scheduler.model.disruption_budget import DisruptionBudget
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import pod_selector
from scheduler.model.selector import LabelSelector
from scheduler.model.well_known import SCHEDULER_NAME
from scheduler.state.snapshot import ClusterSnapshot
from scheduler.watch.decode.pods import POD, to_pod
from tests.builders import namespace, pod_json

Json = dict[str, Any]
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8"}
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "2"}


def live(
    *nodes: Node, pods: Iterable[Json] = (), budgets: Iterable[DisruptionBudget] = (), **more: Any
) -> LiveState:
    """A cluster with namespace team; its pods are given as the API's JSON."""
    pods = list(pods)
    decoded = [_decoded(one) for one in pods]
    return LiveState(
        source=API,
        time="2026-11-27T12:04:11.000000Z",
        namespace="team",
        config=Config(),
        state=ClusterSnapshot(
            scheduler_name=SCHEDULER_NAME,
            generation=0,
            now=0.0,
            nodes=nodes,
            namespaces=(namespace("team"),),
            pods=tuple(decoded),
            budgets=tuple(budgets),
            **more,
        ),
        recreated={
            pod.uid: from_pod(pod, raw)
            for pod, raw in zip(decoded, pods, strict=True)
            if pod.owner is not None
        },
    )


def _decoded(raw: Json) -> Pod:
    return to_pod(POD.decode(msgspec.json.encode(raw)))


def running(name: str, node: str, **fields: Any) -> Json:
    """A pod of the ReplicaSet ``web`` on a node."""
    return pod_json(name, node=node, **{"owner": "ReplicaSet/web", **fields})


def budget(name: str, allowed: int, **labels: str) -> DisruptionBudget:
    """A budget of the pods with these labels."""
    selector = pod_selector(LabelSelector(match_labels=labels))
    return DisruptionBudget(namespace="team", name=name, selector=selector, allowed=allowed)


def asked(
    state: LiveState,
    *manifest: Json,
    replicas: int | None = None,
    add: Iterable[str] = (),
    drain: Iterable[str] = (),
    layout: Iterable[str] = (),
) -> WhatIf:
    """The answer for these objects and this change."""
    documents = [Document(place=f"f:{at}", raw=raw) for at, raw in enumerate(manifest)]
    change = parse_change(add, drain, layout)
    read = read_manifest(documents, state, replicas)
    return answer(state, read, plan_of(state, change), lambda _: None, lambda _: None)


def starts(found: WhatIf) -> tuple[int, int]:
    """The pods that start now, and with the change."""
    assert found.change is not None
    return found.now.starts, found.change.starts


def places(found: WhatIf) -> dict[str, str]:
    return {move.pod: move.node or ("stays" if move.stays else "waits") for move in found.moves}
