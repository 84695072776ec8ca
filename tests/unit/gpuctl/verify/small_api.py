"""A small API server in memory, and one run of ``gpuctl verify`` against it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from gpuctl.cluster_access import Access
from gpuctl.doctor.finding import Finding
from gpuctl.verify.hosts import Raw
from gpuctl.verify.run import Options, verify
from scheduler.watch.client import ApiError, Unreachable
from tests.patience import PATIENCE_S

GPU = "nvidia.com/gpu"
NAMESPACE = "gpu-verify-1"
VERSION = {"resourceVersion": "1"}
Place = Callable[[Raw], Raw]


class Api:
    """Nodes and PriorityClasses that are given; pods get what ``place`` writes on them."""

    def __init__(self, place: Place, *nodes: Raw) -> None:
        self._place = place
        self._nodes = list(nodes)
        self.pods: dict[str, Raw] = {}
        self.namespaces: set[str] = set()
        self.classes: dict[str, Raw] = {}
        self.created: list[Raw] = []
        self.refuses_pods = False
        self.refuses_namespaces = False
        self.refuses_deletions = False
        self.is_away = False
        self.services: list[Raw] = []
        self.has_pods = asyncio.Event()
        self.on_namespace: Callable[[], None] = lambda: None

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        params: Mapping[str, str] | None = None,
        **_: Any,
    ) -> bytes:
        if self.is_away:
            raise Unreachable(f"{method} {path}: connection refused")
        if path.endswith("/services"):
            return json.dumps({"metadata": VERSION, "items": self._labelled(params or {})}).encode()
        parts = path.strip("/").split("/")
        content = json.loads(body) if body else {}
        return json.dumps(self._answer(method, parts, content)).encode()

    def _labelled(self, params: Mapping[str, str]) -> list[Raw]:
        key, _, value = params.get("labelSelector", "").partition("=")
        return [one for one in self.services if one["metadata"]["labels"].get(key) == value]

    def _answer(self, method: str, parts: list[str], content: Raw) -> Raw:
        match method, parts:
            case _, [*_, "pods"] | [*_, "pods", _]:
                return self._pods(method, parts, content)
            case "POST", [*_, "priorityclasses"]:
                self.classes[content["metadata"]["name"]] = content
            case "DELETE", [*_, "priorityclasses", name]:
                del self.classes[name]
            case "POST", ["api", "v1", "namespaces"]:
                self.on_namespace()
                if self.refuses_namespaces:
                    raise ApiError(403, "namespaces is forbidden")
                self.namespaces.add(content["metadata"]["name"])
            case "DELETE", ["api", "v1", "namespaces", name]:
                if self.refuses_deletions:
                    raise ApiError(403, "namespaces is forbidden")
                self.namespaces.discard(name)
            case "GET", ["api", "v1", "namespaces", _] | [*_, "leases", _]:
                raise ApiError(404, "not found")
            case "GET", ["api", "v1", "nodes"]:
                return {"metadata": VERSION, "items": self._nodes}
        return {"metadata": VERSION, "items": []}

    def _pods(self, method: str, parts: list[str], content: Raw) -> Raw:
        match method, parts:
            case "POST", _:
                if self.refuses_pods:
                    raise ApiError(403, "pods is forbidden")
                self.created.append(content)
                self.pods[content["metadata"]["name"]] = self._place(content)
                self.has_pods.set()
                return content
            case "DELETE", _:
                self.pods.clear()
            case "GET", [*_, "pods", name]:
                if name not in self.pods:
                    raise ApiError(404, "not found")
                return self.pods[name]
        return {"metadata": VERSION, "items": list(self.pods.values()) if len(parts) > 3 else []}


def gpu_node(name: str = "n1", **meta: Any) -> Raw:
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, **meta},
        "spec": {},
        "status": {"capacity": {GPU: "2"}, "allocatable": {GPU: "2"}, "conditions": ready},
    }


def waits(pod: Raw) -> Raw:
    """As without a scheduler."""
    return {**pod, "status": {}}


def placed(pod: Raw) -> Raw:
    """As on the node, but for what no node has."""
    asked = pod["spec"]["containers"][0]["resources"]["limits"].get(GPU, "0")
    if int(asked) <= 2:
        return {**pod, "spec": {**pod["spec"], "nodeName": "n1"}}
    message = f"0/1 nodes are available: x. can never be placed here: requests {asked}."
    condition = {"type": "PodScheduled", "status": "False", "message": message}
    return {**pod, "status": {"conditions": [condition]}}


def options(timeout_s: float = PATIENCE_S, total_s: float = 60.0, *, fill: bool = False) -> Options:
    return Options(
        access=Access(),
        scheduler="gpu-scheduler",
        namespace=NAMESPACE,
        image="x",
        timeout_s=timeout_s,
        total_s=total_s,
        fill=fill,
    )


async def run(api: Any, settings: Options) -> dict[str, Finding]:
    said: list[Finding] = []
    result = await verify(api, settings, said.append)
    assert [one.about for one in result.findings] == [one.about for one in said]
    return {one.about: one for one in said}
