"""``gpuctl top`` and ``free``, owners by TYPE/NAME, and completion, on a real API server."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from gpuctl import cluster_access, targets
from gpuctl.cluster_access import Access
from gpuctl.input_error import NotReached
from gpuctl.targets import Scope
from scheduler.model.well_known import DRA_DRIVER
from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra_objects import SLICES
from tests.controlplane.tenants import grant
from tests.controlplane.workloads import Json, Watcher, controlled, job, pod
from tests.dra import claim_spec, slice_json
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import ControlPlane, wait_until
from tools.product import ROOT, Product

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims"
GPU = {"nvidia.com/gpu": "2"}
SLICE = {"nvidia.com/mig-1g.10gb": "1"}
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


@pytest.fixture
def device_class(cp: ControlPlane) -> Iterator[str]:
    """A class of NVIDIA's driver, and a slice with two GPUs of the node top-dra."""
    cp.client.create(CLASSES, {"metadata": {"name": DRA_DRIVER}, "spec": {}})
    devices = slice_json("top-dra", "gpu-0", "gpu-1", driver=DRA_DRIVER)
    devices["metadata"] = {"name": "top-dra"}
    cp.client.create(SLICES, devices)
    yield DRA_DRIVER
    cp.client.delete_if_there(f"{SLICES}/top-dra")
    cp.client.delete_if_there(f"{CLASSES}/{DRA_DRIVER}")


def wait_for_use(here: Watcher, quota: str, used: str) -> None:
    """Wait until the quota at this path has counted so many GPUs."""

    def has_counted(seen: Json) -> bool:
        counted: Json = seen.get("status", {}).get("used", {})
        return counted.get("requests.nvidia.com/gpu") == used

    here.client.wait_for(quota, has_counted, what=f"a used quota of {used}")


@pytest.fixture
def busy(here: Watcher, kwok_node: MakeNode, device_class: str) -> Watcher:
    """Pods with two GPUs, a slice and a device of DRA, and one that asks for more than there is."""
    kwok_node("top-dra")
    claim = {"metadata": {"name": "mine"}, "spec": claim_spec(device_class)}
    here.client.create(CLAIMS.format(here.namespace), claim)
    here.create(pod("claims", resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}]))
    here.wait_bound(1)
    kwok_node("top-gpus", gpus=8, labels=H100)
    kwok_node("top-mig", mig={"2g.20gb": 1, "1g.10gb": 4})
    quota = {"metadata": {"name": "gpus"}, "spec": {"hard": {"requests.nvidia.com/gpu": "40"}}}
    quotas = f"/api/v1/namespaces/{here.namespace}/resourcequotas"
    here.client.create(quotas, quota)
    # Pods that are created before count only when the quota controller looks again.
    wait_for_use(here, f"{quotas}/gpus", "0")
    here.create(pod("two", limits=GPU))
    here.create(pod("part", limits=SLICE))
    here.create(pod("big", limits={"nvidia.com/gpu": "32"}))
    here.wait_bound(3)
    here.wait_explained("big", "Insufficient nvidia.com/gpu")
    wait_for_use(here, f"{quotas}/gpus", "34")
    return here


def asked(plane: ControlPlane, *words: str) -> str:
    """What gpuctl prints for an administrator."""
    result = gpuctl(*words, "--kubeconfig", str(plane.kubeconfig))
    assert result.status == 0, result.err
    return result.out


def of_leader(product: Product) -> tuple[str, str]:
    """The option by which the decisions API is reached."""
    return "--server", f"http://127.0.0.1:{product.decisions_port}"


def sums(document: str) -> Json:
    """What does not depend on the time of the question, nor on the last decision."""
    capacity: Json = json.loads(document)["capacity"]
    del capacity["time"]
    for one in capacity["namespaces"]:
        one.pop("oldestWaitS", None)
        one.pop("waitingCodes", None)
    for one in capacity["waiting"]:
        one.pop("waitsS")
        one.pop("place")
        one.pop("code", None)
    return capacity


@pytest.mark.smoke
def test_leader_tells_holders_room_and_quota(
    cp: ControlPlane, product: Product, busy: Watcher
) -> None:
    own = ("-n", busy.namespace, *of_leader(product))
    # The leader has the quota's count from a watch of its own.
    wait_until(lambda: "quota 34 of 40" in asked(cp, "free", *own), what="the leader's quota")

    pods = asked(cp, "top", "pods", *own)
    nodes = asked(cp, "top", "nodes", *of_leader(product))
    free = asked(cp, "free", *own)

    assert [line.split()[1:] for line in pods.splitlines()[1:]] == [
        ["claims", "top-dra", "1"],
        ["two", "top-gpus", "2"],
        ["part", "top-mig", "1", "x", "1g.10gb"],
        ["big", "waits", pods.split("waits ")[1].split()[0], "32"],
    ]
    assert "top-gpus  H100 80G  8     ##......" in nodes
    assert "top-dra   -         2     #." in nodes
    assert "two 2" in nodes
    assert "H100 80G  0          1  3  6  -" in free
    assert "1 x 2g.20gb, 3 x 1g.10gb" in free
    assert f"you ({busy.namespace}): quota 34 of 40 gpu used: 6 more may be created" in free


@pytest.mark.parametrize("words", [("top",), ("top", "nodes"), ("top", "pods"), ("free",)])
def test_without_the_leader_the_sums_are_the_same(
    cp: ControlPlane, product: Product, busy: Watcher, words: tuple[str, ...]
) -> None:
    assert busy.namespace

    def answers() -> list[str]:
        """Of the leader, and of the API server."""
        to = (of_leader(product), ("--no-forward",))
        return [asked(cp, *words, "-o", "json", *by) for by in to]

    assert [json.loads(one)["source"] for one in answers()] == ["leader", "api"]
    # A namespace of an earlier test may end between two answers.
    seen: list[Json] = []

    def are_equal() -> bool:
        seen[:] = map(sums, answers())
        return seen[0] == seen[1]

    wait_until(are_equal, what="equal sums", last=lambda: seen)


def test_costs_of_the_leader_and_of_the_objects_are_the_same(
    cp: ControlPlane, product: Product, busy: Watcher, tmp_path: Path
) -> None:
    """The busy namespace holds two GPUs, one of DRA, and a seventh of one that is cut."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\ndefault: 7\n")
    seen: list[tuple[Json, Json]] = []

    def are_equal() -> bool:
        answers = (
            json.loads(asked(cp, "cost", "-o", "json", *by))
            for by in (of_leader(product), ("--no-forward",))
        )
        leader, api = (exact(one["cost"]) for one in answers)
        seen[:] = [(leader, api)]
        return leader == api

    wait_until(are_equal, what="equal costs", last=lambda: seen)
    own = asked(cp, "cost", "-n", busy.namespace, "--prices", str(prices), "-o", "csv")

    assert own.splitlines()[1].split(",")[:4] == [busy.namespace, "3", "3.1429", "22.0"]
    gpus = sum(one["gpus"] for one in seen[0][0]["models"])
    parts = ("held", "free", "stranded", "failed", "unavailable")
    shares = [one.get(part, 0) for one in seen[0][0]["models"] for part in parts]
    assert sum(map(Fraction, shares)) == gpus


def exact(cost: Json) -> Json:
    """What depends neither on the time of the question nor on the prices."""
    cost["namespaces"] = [
        {key: value for key, value in one.items() if key in ("namespace", "model", "gpus", "pods")}
        for one in cost["namespaces"]
    ]
    return {key: cost[key] for key in ("models", "namespaces", "nodesTotal")}


def test_tenant_sees_the_own_namespace_and_one_line_about_it(
    cp: ControlPlane, busy: Watcher
) -> None:
    user = f"tenant-{busy.namespace}"
    grant(cp, user, busy.namespace, "edit")
    config = ("-n", busy.namespace, "--kubeconfig", str(cp.kubeconfig_for_user(user)))

    top = gpuctl("top", *config)
    free = gpuctl("free", *config)
    cost = gpuctl("cost", *config)

    assert top.status == free.status == cost.status == 0, (top.err, free.err, cost.err)
    assert f"{busy.namespace}" in top.out.splitlines()[1]
    assert "34/40" in top.out
    assert "6 more may be created" in free.out
    assert cost.out.splitlines()[1].split()[:3] == [busy.namespace, "2", "2.14"]
    for result, count in ((top, 1), (free, 1), (cost, 2)):
        notes = [line for line in result.out.splitlines() if line.startswith("note: ")]
        assert len(notes) == count
        assert notes[0].startswith(f"note: only namespace {busy.namespace}: you may not list")


def test_user_without_rights_gets_one_line(cp: ControlPlane, namespace: str) -> None:
    config = str(cp.kubeconfig_for_user(f"nothing-{namespace}"))

    result = gpuctl("free", "-n", namespace, "--kubeconfig", config)

    assert (result.status, result.out) == (1, "")
    assert 'cannot list resource "pods"' in result.err
    assert result.err.count("\n") == 1


# --- the grammar ---------------------------------------------------------------------------------


def named(plane: ControlPlane, namespace: str, *words: str) -> list[str]:
    """The pods that words of a command line name."""

    async def read() -> list[str]:
        access = Access(kubeconfig=str(plane.kubeconfig))
        async with cluster_access.cluster(access) as client:
            found = await targets.pods_of(client, access, Scope(namespace=namespace), words)
        return sorted(pod.name for pod in found)

    return asyncio.run(read())


def test_owner_names_the_pods_of_real_controllers(
    cp: ControlPlane, here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("top-any")
    here.create(controlled("Deployment", "web", replicas=2))
    here.create(controlled("Deployment", "web-api", replicas=1))
    here.create(controlled("StatefulSet", "db", replicas=1))
    here.create(job("once", completions=1))
    pods = here.wait_bound(5)
    names = [one["metadata"]["name"] for one in pods]

    def of(prefix: str) -> list[str]:
        return sorted(name for name in names if name.startswith(prefix))

    assert named(cp, here.namespace, "deploy/web") == [
        name for name in of("web-") if not name.startswith("web-api-")
    ]
    assert named(cp, here.namespace, "deployment.apps/web-api") == of("web-api-")
    assert named(cp, here.namespace, "sts/db", "job.batch/once") == [*of("db-"), *of("once-")]
    assert named(cp, here.namespace, f"pod/{names[0]}") == [names[0]]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        pytest.param(
            "pod/web-2", "pod web-2 not found in namespace {0}; did you mean web-1?", id="similar"
        ),
        pytest.param("deploy/none", "deployment none has no pod in namespace {0}", id="owner"),
        pytest.param(
            "elsewhere/web-1",
            "pod web-1 not found in namespace elsewhere; it is in {0}",
            id="in-another-namespace",
        ),
    ],
)
def test_missing_name_is_answered_with_the_likely_one(
    cp: ControlPlane, here: Watcher, word: str, message: str
) -> None:
    here.create(pod("web-1", scheduler="another-scheduler"))
    scope = None if word.startswith("elsewhere") else here.namespace

    with pytest.raises(NotReached) as caught:
        asyncio.run(_resolve(cp, scope, word))

    assert str(caught.value) == message.format(here.namespace)


async def _resolve(plane: ControlPlane, namespace: str | None, word: str) -> Any:
    access = Access(kubeconfig=str(plane.kubeconfig))
    async with cluster_access.cluster(access) as client:
        return await targets.pods_of(client, access, Scope(namespace=namespace), [word])


def test_kubectl_completes_the_plugin(cp: ControlPlane, tmp_path: Path) -> None:
    """kubectl runs the program of that name with the words behind the plugin's name."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"]
    for name in ("kubectl-gpu_scheduler", "kubectl_complete-gpu_scheduler"):
        module, function = scripts[name].split(":")
        program = tmp_path / name
        program.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
        program.chmod(0o755)

    done = subprocess.run(
        [cp.program("kubectl"), "__complete", "gpu-scheduler", "sn"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout.splitlines()[0].partition("\t")[0] == "snapshot"
