"""One run against a small API server in memory: what it finds, and that nothing stays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpuctl.cluster_access import Access
from gpuctl.doctor.finding import Finding, Level
from gpuctl.verify.hosts import Raw
from gpuctl.verify.run import Options, verify
from gpuctl.verify.trial import LOWEST
from scheduler.watch.client import ApiError
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
        del params
        parts = path.strip("/").split("/")
        content = json.loads(body) if body else {}
        return json.dumps(self._answer(method, parts, content)).encode()

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


def options(timeout_s: float = PATIENCE_S, total_s: float = 60.0) -> Options:
    return Options(
        access=Access(),
        scheduler="gpu-scheduler",
        namespace=NAMESPACE,
        image="x",
        timeout_s=timeout_s,
        total_s=total_s,
    )


async def run(api: Any, settings: Options) -> dict[str, Finding]:
    said: list[Finding] = []
    result = await verify(api, settings, said.append)
    assert [one.about for one in result.findings] == [one.about for one in said]
    return {one.about: one for one in said}


async def test_simulated_node_skips_what_needs_a_container() -> None:
    api = Api(placed, gpu_node())
    found = await run(api, options())

    assert found["plugin"].level is Level.SKIP
    assert found["place"].level is Level.OK
    assert "a simulated node runs no container" in found["place"].says
    assert found["explain"].says == "requests 1000"
    assert found["taints"].level is Level.SKIP
    assert found["cleanup"].says == f"namespace {NAMESPACE} removed"


async def test_cluster_without_the_scheduler_fails_within_the_limits() -> None:
    api = Api(waits, gpu_node())
    found = await run(api, options(timeout_s=0.3))

    assert found["install"].level is Level.FAIL
    assert found["place"].level is Level.FAIL
    assert found["explain"].says == "no answer about a pod that cannot start"
    assert (api.namespaces, api.pods) == (set(), {})


async def test_checks_after_the_limit_are_skipped_and_all_is_removed() -> None:
    api = Api(waits, gpu_node())
    found = await run(api, options(timeout_s=30.0, total_s=0.3))

    assert found["place"].level is Level.SKIP
    assert "0.3 s are over" in found["honours"].says
    assert (api.namespaces, api.pods) == (set(), {})


async def test_interrupted_run_leaves_nothing() -> None:
    api = Api(waits, gpu_node())
    task = asyncio.create_task(run(api, options(timeout_s=30.0)))
    await api.has_pods.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (api.namespaces, api.pods) == (set(), {})


async def test_refused_pods_are_findings() -> None:
    api = Api(placed, gpu_node())
    api.refuses_pods = True
    found = await run(api, options())

    assert found["place"].says == "refused: pods is forbidden"
    assert found["cleanup"].level is Level.OK


async def test_tainted_node_that_takes_every_pod_fails() -> None:
    node = gpu_node()
    node["spec"]["taints"] = [{"key": "dedicated", "effect": "NoSchedule"}]
    found = await run(Api(placed, node), options(timeout_s=1.0))

    assert found["taints"].level is Level.FAIL
    assert found["toleration"].level is Level.OK


@pytest.mark.parametrize(
    ("container", "annotations"),
    [
        pytest.param({"resources": {"limits": {GPU: "1"}}}, {}, id="requests"),
        pytest.param({}, {"gpu-scheduling-map": "0=n1:0"}, id="map-without-a-request"),
    ],
)
async def test_node_with_other_pods_gpus_is_never_used_for_preemption(
    container: Raw, annotations: Raw
) -> None:
    class Busy(Api):
        def _answer(self, method: str, parts: list[str], content: Raw) -> Raw:
            if parts == ["api", "v1", "pods"]:  # of all namespaces
                spec = {"nodeName": "n1", "containers": [container]}
                pod = {"metadata": {"annotations": annotations}, "spec": spec}
                return {"metadata": VERSION, "items": [pod]}
            if (method, parts[-1]) == ("GET", "priorityclasses"):
                items = [{"metadata": {"name": f"c{value}"}, "value": value} for value in (9, 1)]
                return {"metadata": VERSION, "items": items}
            return super()._answer(method, parts, content)

    found = await run(Busy(placed, gpu_node()), options())

    assert found["preemption"].level is Level.SKIP
    assert "other pods" in found["preemption"].says


async def test_test_pods_preempt_no_pod_and_their_class_is_removed() -> None:
    api = Api(placed, gpu_node())
    classes: dict[str, Raw] = api.classes
    kept: list[Raw] = []
    api.on_namespace = lambda: kept.extend(classes.values())

    await run(api, options())

    assert [(one["value"], one["preemptionPolicy"]) for one in kept] == [(LOWEST, "Never")]
    assert {one["spec"]["priorityClassName"] for one in api.created} == {NAMESPACE}
    assert classes == {}


async def test_refused_namespace_leaves_no_priority_class() -> None:
    api = Api(placed, gpu_node())
    api.refuses_namespaces = True

    with pytest.raises(ApiError, match="forbidden"):
        await run(api, options())

    assert api.classes == {}
