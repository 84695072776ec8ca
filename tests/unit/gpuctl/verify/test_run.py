"""One run against a small API server in memory: what it finds."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.doctor.finding import Level
from gpuctl.verify.hosts import Raw
from gpuctl.verify.run import verify
from gpuctl.verify.trial_namespace import LOWEST
from tests.unit.gpuctl.verify.small_api import (
    GPU,
    NAMESPACE,
    VERSION,
    Api,
    gpu_node,
    options,
    placed,
    run,
    waits,
)


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


class Pulls(Api):
    """A real node, whose pod waits for its image for some reads."""

    def __init__(self, reads: int, reason: str) -> None:
        node = gpu_node()
        node["metadata"]["annotations"] = {}
        super().__init__(placed, node)
        self._reads, self._reason = reads, reason

    def _pods(self, method: str, parts: list[str], content: Raw) -> Raw:
        answer = super()._pods(method, parts, content)
        if (method, parts[-1]) == ("GET", "place"):
            self._reads -= 1
            waiting = {"state": {"waiting": {"reason": self._reason, "message": "no such image"}}}
            status = {"phase": "Pending", "containerStatuses": [waiting]}
            return {**answer, "status": status if self._reads > 0 else {"phase": "Succeeded"}}
        return answer

    async def request(self, method: str, path: str, *args: Any, **more: Any) -> bytes:
        if path.endswith("/place/log"):
            return b"GPU 0: NVIDIA H100\n"
        return await super().request(method, path, *args, **more)


async def test_wait_for_an_image_is_noted_and_does_not_count() -> None:
    notes: list[str] = []
    api = Pulls(reads=20, reason="ContainerCreating")  # a second, with a limit of 0.3 s
    result = await verify(api, options(timeout_s=0.3), print, notes.append)  # type: ignore[arg-type] # our own API server

    found = {one.about: one for one in result.findings}
    assert found["place"].says.endswith("nvidia-smi sees 1 GPU")
    assert notes == ["place: waits for image x (ContainerCreating)"]


async def test_image_that_cannot_be_pulled_is_named() -> None:
    found = await run(Pulls(reads=10_000, reason="ErrImagePull"), options(timeout_s=0.3))

    assert found["place"].level is Level.FAIL
    assert found["place"].says.endswith("did not succeed there: ErrImagePull: no such image")


def mig_node() -> Raw:
    offered = {"nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-2g.20gb": "2"}
    node = gpu_node()
    node["status"] |= {"capacity": offered, "allocatable": offered}
    return node


async def test_free_instances_are_taken_only_if_asked_for() -> None:
    api = Api(placed, mig_node())
    asked = await run(api, options(timeout_s=0.3))
    names = {one["metadata"]["name"] for one in api.created}

    assert asked["fallback"].level is Level.SKIP
    assert "would take all free 2g.20gb (2)" in asked["fallback"].says
    assert asked["fallback"].advice.startswith("gpuctl verify --fill")
    assert not any(name.startswith("filler-") for name in names)

    await run(api, options(timeout_s=0.3, fill=True))

    names = {one["metadata"]["name"] for one in api.created}
    assert {"filler-0", "filler-1", "stepped"} <= names
