"""GPUs in parts: what the real API server takes and the real kube-scheduler makes of counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra_objects import CLASSES, ROLES, Dra, claiming, kube_scheduler
from tests.controlplane.workloads import Json, Watcher
from tests.dra import claim_spec
from tools.controlplane import ControlPlane
from tools.fake_operator import FakeOperator
from tools.product import ROOT

pytestmark = pytest.mark.kubernetes("1.36", "DRAPartitionableDevices is off by default before")

POOL = "run.ai/simulated-gpu-node-pool"


@pytest.fixture(scope="module")
def nodes(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dra]:
    dra = {"dra": {"kwok": "instead", "partitionable": True}}
    running = FakeOperator(cp, tmp_path_factory.mktemp("fakegpu"), config=dra)
    pools = {
        "one": {"gpus": [{"type": "h100", "count": 1}]},
        "nine": {"gpus": [{"type": "h200", "count": 9}, {"type": "t4", "count": 1}]},
    }
    try:
        running.install(ROLES, CLASSES)
        running.configure({"nodePools": pools})
        with running:
            yield Dra(cp)
    finally:
        cp.kubectl("delete", "--ignore-not-found", "-f", str(ROOT / "cluster" / CLASSES))


def is_complete(slices: list[Json]) -> bool:
    return bool(slices) and len(slices) == slices[0]["spec"]["pool"]["resourceSliceCount"]


def test_api_server_accepts_nine_partitionable_gpus(nodes: Dra, kwok_node: MakeNode) -> None:
    """In slices of one generation: counters, 8 sets in each, and then one for each GPU."""
    kwok_node("dra-nine", labels={POOL: "nine"})
    found = nodes.wait_slices("dra-nine", "all of the pool", is_complete)
    pools = [one["spec"]["pool"] for one in found]

    assert {one["generation"] for one in pools} == {1}
    assert {one["resourceSliceCount"] for one in pools} == {len(found)}
    assert sorted(len(one["spec"].get("devices", ())) for one in found) == [0, 0, 1, *[26] * 9]
    sets = [len(one["spec"]["sharedCounters"]) for one in found if "sharedCounters" in one["spec"]]
    assert sorted(sets) == [1, 8]
    kinds = Counter(one["attributes"]["type"]["string"] for one in nodes.devices("dra-nine"))
    assert kinds["gpu"] == 10
    assert kinds["mig"] == 9 * 25


def make_templates(nodes: Dra, namespace: str) -> None:
    """Claims on a 4g, a 3g and a whole GPU."""
    for profile in ("4g.40gb", "3g.40gb"):
        cel = f"device.attributes['gpu.nvidia.com'].profile == '{profile}'"
        spec = claim_spec("mig.nvidia.com", selectors=[{"cel": {"expression": cel}}])
        name = profile.partition(".")[0]
        nodes.make(namespace, "resourceclaimtemplates", name, {"spec": spec})
    nodes.make(namespace, "resourceclaimtemplates", "whole", {"spec": claim_spec()})


def _is_reported(here: Watcher, pod: str, reason: str, _: object) -> bool:
    return reason in str(here.events(pod))


def test_allocated_partitions_exclude_the_whole_gpu(
    cp: ControlPlane, nodes: Dra, kwok_node: MakeNode, namespace: str
) -> None:
    """One H100: a 4g and a 3g beside each other, then neither another 3g nor the whole GPU; the
    topology shows both with their pods, and the GPU is whole when they are gone."""
    kwok_node("dra-one", labels={POOL: "one"})
    nodes.wait_slices("dra-one", "all of it", is_complete)
    here = Watcher(cp, namespace)
    make_templates(nodes, namespace)

    with kube_scheduler(cp):
        for name in ("4g", "3g"):
            here.create(claiming(f"has-{name}", template=name))
            (device,) = nodes.given(namespace, f"has-{name}")
            assert device.startswith(f"gpu-0-mig-{name}40gb-")
        no = "cannot allocate all claims"
        for name in ("wants-3g", "wants-whole"):
            here.create(claiming(name, template=name.removeprefix("wants-")))
            nodes.wait("dra-one", no, partial(_is_reported, here, name, no))

        def cut() -> list[str]:
            text = nodes.topology("dra-one").replace('"', "")
            lines = [line.strip() for line in text.splitlines()]
            return [one for one in lines if one.startswith(("profile: ", "position: ", "pod: has"))]

        wanted = ["profile: 4g.40gb", "position: 0", "pod: has-4g"]
        wanted += ["profile: 3g.40gb", "position: 4", "pod: has-3g"]
        nodes.wait("dra-one", f"{wanted}", lambda _: cut() == wanted)

        for name in ("has-4g", "has-3g", "wants-3g"):
            here.client.delete(here.path("Pod", name), {"gracePeriodSeconds": 0})
        assert nodes.given(namespace, "wants-whole") == ["gpu-0"]
    nodes.wait(
        "dra-one",
        "a whole GPU",
        lambda _: "pod: wants-whole" in nodes.topology("dra-one") and cut() == [],
    )
