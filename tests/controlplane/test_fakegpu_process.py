"""The fake GPU operator as a process: its rights, its second replica, its token, its speed."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuctl.fakeoperator import ACCOUNT, NAMESPACE, FakeOperator
from tests.controlplane.conftest import MakeNode
from tests.controlplane.rights import audited, granted_rights, used_rights
from tests.controlplane.workloads import Json, Watcher, annotation, pod
from tools.controlplane import ControlPlane

USER = "system:serviceaccount:" + ACCOUNT.replace("/", ":")
POOL = "run.ai/simulated-gpu-node-pool"
GPU = "nvidia.com/gpu"
TOKEN = "open-sesame"
POOLS: Json = {
    "nodePools": {
        "four": {"gpus": [{"type": "t4", "count": 4}]},
        "two": {"gpus": [{"type": "t4", "count": 2}]},
    }
}
EDITS = 12
EDIT_MAX_S = 5.0


@pytest.fixture(scope="module")
def operator(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeOperator]:
    directory = tmp_path_factory.mktemp("fakegpu")
    token = directory / "token"
    token.write_text(TOKEN + "\n")
    running = FakeOperator(cp, directory, config={"server": {"tokenFile": str(token)}})
    running.install()
    running.configure(POOLS)
    with running:
        yield running


def wait_gpus(cp: ControlPlane, node: str, count: int) -> None:
    cp.client.wait_for(
        f"/api/v1/nodes/{node}",
        lambda seen: seen["status"]["allocatable"].get(GPU) == str(count),
        what=f"{count} GPUs on {node}",
    )


def label(cp: ControlPlane, node: str, pool: str | None) -> None:
    cp.client.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {POOL: pool}}})


def test_an_edit_takes_effect_within_seconds(
    cp: ControlPlane, operator: FakeOperator, kwok_node: MakeNode
) -> None:
    """The slowest of a dozen; ``bench/fakegpu.py`` measures a hundred among a thousand nodes."""
    assert operator.pid
    kwok_node("fp-edits", labels={POOL: "four"})
    wait_gpus(cp, "fp-edits", 4)
    times = []
    for number in range(EDITS):
        pool, count = (("two", 2), ("four", 4))[number % 2]
        started = time.monotonic()
        label(cp, "fp-edits", pool)
        wait_gpus(cp, "fp-edits", count)
        times.append(time.monotonic() - started)

    assert max(times) < EDIT_MAX_S


@pytest.mark.contract("S1-36", "S1-40", "S1-B20")
def test_every_right_is_used_and_none_is_missing(
    cp: ControlPlane, operator: FakeOperator, kwok_node: MakeNode
) -> None:
    """Judged by the API server's audit log, after pools, a failure and a reservation."""
    assert operator.pid
    kwok_node("fp-rights", labels={POOL: "two"})
    wait_gpus(cp, "fp-rights", 2)
    cp.wait_for_service_account("runai-reservation")
    here = Watcher(cp, "runai-reservation")
    here.create(pod("reserves", limits={GPU: "1"}, nodeName="fp-rights"))
    try:
        marked = "run.ai/reserve_for_gpu_index"
        (item,) = here.wait("the mark", lambda items: all(annotation(one, marked) for one in items))
        assert str(annotation(item, marked)).startswith("GPU-")
        failures = {"gpu-scheduler.io/fake-failures": "0:xid-79"}
        cp.client.patch("/api/v1/nodes/fp-rights", {"metadata": {"annotations": failures}})
        here.wait("the event", lambda _: bool(here.events("reserves")))
    finally:
        here.client.delete(here.path("Pod", "reserves"), {"gracePeriodSeconds": 0})
    label(cp, "fp-rights", None)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-fp-rights"
    cp.client.wait_for(path, lambda seen: seen is None, what="its ConfigMap to go")

    events = audited(cp, USER)
    decisions = {e["annotations"]["authorization.k8s.io/decision"] for e in events}
    assert decisions == {"allow"}
    used = used_rights([e for e in events if e["objectRef"]["resource"] != "migcuts"])
    # A ConfigMap is created by a patch, which asks for the right to create without using its verb.
    assert granted_rights("fakegpu-rbac.yaml") - used == {("", "configmaps", "create")}
    assert used <= granted_rights("fakegpu-rbac.yaml")


@pytest.mark.contract("S1-B8")
def test_a_second_replica_stands_by_and_takes_over(
    cp: ControlPlane, operator: FakeOperator, kwok_node: MakeNode, tmp_path: Path
) -> None:
    kwok_node("fp-two")
    second = FakeOperator(cp, tmp_path)
    with second:
        label(cp, "fp-two", "four")
        wait_gpus(cp, "fp-two", 4)
        assert "leading" not in second.log()
        operator.kill()
        label(cp, "fp-two", "two")

        wait_gpus(cp, "fp-two", 2)

        assert "leading" in second.log()
    assert "Controller was Stopped" in second.log()
    operator.start()


@pytest.mark.contract("S1-B19")
def test_who_asks_the_topology_server_has_to_bear_the_token(
    cp: ControlPlane, operator: FakeOperator, kwok_node: MakeNode
) -> None:
    kwok_node("fp-token", labels={POOL: "two"})
    wait_gpus(cp, "fp-token", 2)

    def ask(path: str, token: str | None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"http://127.0.0.1:{operator.port}{path}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    assert ask("/topology", None) == (401, "a bearer token is required")
    assert ask("/topology/nodes/fp-token", "guessed")[0] == 401
    assert len(ask("/topology/nodes/fp-token", TOKEN)[1]["Gpus"]) == 2
    assert ask("/healthz", None)[0] == 200


@pytest.mark.contract("S1-13")
def test_it_says_when_it_starts_and_why_it_stops(operator: FakeOperator) -> None:
    operator.stop()
    said = operator.log()
    operator.start()

    for line in ("Controller was Started", "Received signal SIGTERM", "Controller was Stopped"):
        assert line in said
    assert f"Serving on port {operator.port}" in said
