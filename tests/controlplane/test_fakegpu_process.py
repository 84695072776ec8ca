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

from tests.controlplane.audit_log import Moment, audited, now, wait_audited
from tests.controlplane.conftest import MakeNode
from tests.controlplane.gpu_nodes import Nodes, killed, wait_kind
from tests.controlplane.rights import decisions, granted_rights, used_rights
from tests.controlplane.workloads import Json, Watcher, annotation, pod
from tests.patience import SLOW_MACHINE
from tools.controlplane import ControlPlane
from tools.fake_operator import ACCOUNT, NAMESPACE, FakeOperator
from tools.product import SHORT_LEASE

USER = "system:serviceaccount:" + ACCOUNT.replace("/", ":")
POOL = "run.ai/simulated-gpu-node-pool"
GPU = "nvidia.com/gpu"
TOKEN = "open-sesame"
SHARING: Json = {
    "timeSlicing": {
        "failRequestsGreaterThanOne": True,
        "resources": [{"name": GPU, "replicas": 2}],
    }
}
POOLS: Json = {
    "nodePools": {
        "four": {"gpus": [{"type": "t4", "count": 4}]},
        "two": {"gpus": [{"type": "t4", "count": 2}]},
        "strict": {"gpus": [{"type": "t4", "count": 2}], "sharing": SHARING},
    }
}
EDITS = 12
EDIT_MAX_S = 5.0


@pytest.fixture(scope="module")
def pod_groups(cp: ControlPlane) -> Iterator[str]:
    """The kind PodGroup, as Run:ai brings it; the path of those in a namespace."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v2alpha2", "served": True, "storage": True}
    spec = {
        "group": "scheduling.run.ai",
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
        "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    name = "podgroups.scheduling.run.ai"
    cp.client.create(path, {"metadata": {"name": name}, "spec": spec})
    groups = "/apis/scheduling.run.ai/v2alpha2/namespaces/{}/podgroups"
    try:
        wait_kind(cp, groups.format("default"))
        yield groups
    finally:
        cp.client.delete(f"{path}/{name}")


@pytest.fixture(scope="module")
def before(cp: ControlPlane) -> Moment:
    """The moment at which this module began; other tests ran before."""
    return now(cp)


@pytest.fixture(scope="module")
def operator(
    cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory, pod_groups: str, before: Moment
) -> Iterator[FakeOperator]:
    assert pod_groups
    assert before.time, "the moment before the operator starts"
    directory = tmp_path_factory.mktemp("fakegpu")
    token = directory / "token"
    token.write_text(TOKEN + "\n")
    config = {"server": {"tokenFile": str(token)}, "leaderElection": SHORT_LEASE}
    running = FakeOperator(cp, directory, config=config)
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
    """The slowest of a dozen; ``bench/fakegpu`` measures a hundred among a thousand nodes."""
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

    assert max(times) < EDIT_MAX_S * SLOW_MACHINE


@pytest.mark.contract("S1-7", "S1-42")
def test_pod_utilization_follows_the_priority_class_of_its_group(
    cp: ControlPlane,
    operator: FakeOperator,
    kwok_node: MakeNode,
    namespace: str,
    pod_groups: str,
) -> None:
    assert operator.pid
    kwok_node("fp-groups", labels={POOL: "two"})
    wait_gpus(cp, "fp-groups", 2)
    path = pod_groups.format(namespace)
    kind = {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup"}
    spec = {"priorityClassName": "build"}
    cp.client.create(path, {**kind, "metadata": {"name": "g"}, "spec": spec})
    here = Watcher(cp, namespace)
    grouped = {"pod-group-name": "g"}
    here.create(pod("p", limits={GPU: "1"}, nodeName="fp-groups", annotations=grouped))
    nodes = Nodes(cp)

    def busy(lowest: int, highest: int) -> None:
        wanted = f"min: {lowest}\n          max: {highest}\n"
        nodes.wait("fp-groups", wanted, lambda _: wanted in shown())

    def shown() -> str:
        text = nodes.topology("fp-groups")
        return text if "pod: p" in text and "fbUsed: 16384" in text else ""

    busy(0, 0)
    cp.client.patch(f"{path}/g", {"spec": {"priorityClassName": "train"}})
    busy(80, 100)


def label_one_with_a_kubelet(cp: ControlPlane) -> None:
    cp.client.create("/api/v1/nodes", {"metadata": {"name": "fp-real", "labels": {POOL: "two"}}})
    try:
        cp.client.wait_for(
            "/api/v1/nodes/fp-real",
            lambda seen: "run.ai/fake.gpu" in seen["metadata"]["labels"],
            what="its labels",
        )
    finally:
        cp.client.delete("/api/v1/nodes/fp-real")


@pytest.mark.contract("S1-36", "S1-40", "S1-B20")
def test_every_right_is_used_and_none_is_missing(
    cp: ControlPlane, operator: FakeOperator, before: Moment, kwok_node: MakeNode
) -> None:
    """Judged by the audit log, after pools, a failure, a reservation and a pod that is refused."""
    assert operator.pid
    kwok_node("fp-rights", labels={POOL: "two"})
    wait_gpus(cp, "fp-rights", 2)
    kwok_node("fp-strict", labels={POOL: "strict"})
    wait_gpus(cp, "fp-strict", 4)
    label_one_with_a_kubelet(cp)
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
        here.create(pod("greedy", limits={GPU: "2"}, nodeName="fp-strict"))
        here.wait("the refusal", lambda _: bool(here.events("greedy")))
    finally:
        here.client.delete(here.pods_path, {"gracePeriodSeconds": 0})
    label(cp, "fp-rights", None)
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-fp-rights"
    cp.client.wait_for(path, lambda seen: seen is None, what="its ConfigMap to go")

    granted = granted_rights("fakegpu-rbac.yaml")
    # A ConfigMap is created by a patch, which asks for the right to create without using its verb.
    # The lease is there from the first test that wanted one.
    used = granted - {("", "configmaps", "create")}
    wait_audited(cp, USER, "every right", lambda every: used <= used_rights(every))
    events = audited(cp, USER, before)
    assert decisions(events) == {"allow"}
    assert ("", "configmaps", "create") not in used_rights(audited(cp, USER))
    assert used_rights(events) <= granted


@pytest.mark.contract("S1-B8")
def test_a_second_replica_stands_by_and_takes_over(
    cp: ControlPlane, operator: FakeOperator, kwok_node: MakeNode, tmp_path: Path
) -> None:
    kwok_node("fp-two")
    second = FakeOperator(cp, tmp_path, config={"leaderElection": SHORT_LEASE})
    with second:
        label(cp, "fp-two", "four")
        wait_gpus(cp, "fp-two", 4)
        assert "leading" not in second.log()
        with killed(operator, is_lease_freed=False):
            label(cp, "fp-two", "two")

            wait_gpus(cp, "fp-two", 2)

            assert "leading" in second.log()
    assert "Controller was Stopped" in second.log()


@pytest.mark.contract("S1-B19")
def test_topology_server_requires_the_token(
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
def test_start_and_stop_reason_are_logged(operator: FakeOperator) -> None:
    operator.stop()
    said = operator.log()
    operator.start()

    for line in ("Controller was Started", "Received signal SIGTERM", "Controller was Stopped"):
        assert line in said
    assert f"Serving on port {operator.port}" in said
