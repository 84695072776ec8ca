"""A pod explained by the pod itself, and by the leader's decisions API, on a real API server."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import (
    Json,
    Watcher,
    annotation,
    controlled,
    fetch,
    pod,
    wait_logged,
)
from tests.patience import PATIENCE_S
from tests.unit.gpuctl.cli import CommandOutput, gpuctl
from tools.controlplane import ControlPlane, wait_until
from tools.product import NAMESPACE, ROOT, Product

DECISION = "gpu-scheduler.io/decision"
READ_POD = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
LIST_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "get"]}
READ_EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "list"]}
READ_LEASE = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
PLUGIN = "kubectl-gpu_scheduler"
RESERVED = {"key": "gpu", "value": "reserved", "effect": "NoSchedule"}
BIG = {"nvidia.com/gpu": "64"}


Kubeconfig = Callable[..., Path]


@pytest.fixture
def kubeconfig(cp: ControlPlane, namespace: str) -> Kubeconfig:
    """A kubeconfig of a user with exactly these rights, here or in another namespace."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces"
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

    def may(user: str, space: str, rules: Sequence[Json]) -> bool:
        """Whether the authorizer, which learns of roles by a watch of its own, says yes to all."""
        asked = [
            {"namespace": space, "verb": rule["verbs"][0], "group": rule["apiGroups"][0]}
            | {"resource": rule["resources"][0]}
            for rule in rules
        ]
        specs = [{"user": user, "resourceAttributes": one} for one in asked]
        answers = [cp.client.create(reviews, {"spec": spec}) for spec in specs]
        return all(answer["status"]["allowed"] for answer in answers)

    def allow(user: str, space: str, *rules: Json) -> None:
        name = f"{user}-{namespace}"
        role = {"kind": "Role", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        meta = {"name": name}
        cp.client.create(f"{rbac}/{space}/roles", {"metadata": meta, "rules": list(rules)})
        binding = {"metadata": meta, "roleRef": role, "subjects": [subject]}
        cp.client.create(f"{rbac}/{space}/rolebindings", binding)
        wait_until(lambda: may(name, space, rules), what=f"the API server to know of {name}")

    def make(user: str, *rules: Json, elsewhere: tuple[str, Json] | None = None) -> Path:
        allow(user, namespace, *rules)
        if elsewhere is not None:
            allow(user, elsewhere[0], elsewhere[1])
        return cp.kubeconfig_for_user(f"{user}-{namespace}")

    return make


def why(namespace: str, name: str, kubeconfig: Path, *options: str) -> CommandOutput:
    """Ask as a person does."""
    return gpuctl("why", name, "-n", namespace, "--kubeconfig", str(kubeconfig), *options)


def server(product: Product) -> tuple[str, str]:
    """The option by which the decisions API is reached."""
    return "--server", f"http://127.0.0.1:{product.decisions_port}"


@pytest.fixture
def pending(cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode) -> Watcher:
    """One pod that asks for more GPUs than any node has."""
    kwok_node("why-small", gpus=2, taints=[RESERVED])
    kwok_node("why-large", gpus=8)
    here = Watcher(cp, namespace)
    here.create(pod("big", limits=BIG))
    here.wait_explained("big", "Insufficient nvidia.com/gpu")
    return here


@pytest.mark.smoke
def test_reader_of_pods_and_events_gets_reason_and_next_step(
    pending: Watcher, kubeconfig: Kubeconfig
) -> None:
    pending.client.wait_for(
        f"/api/v1/namespaces/{pending.namespace}/events",
        lambda seen: any(item["reason"] == "FailedScheduling" for item in seen["items"]),
        what="the event",
    )

    config = kubeconfig("reader", READ_POD, READ_EVENTS)

    result = why(pending.namespace, "big", config, "-o", "wide")

    assert result.status == 2, result.err
    assert f"{pending.namespace}/big waits" in result.out
    assert "INSUFFICIENT  Insufficient nvidia.com/gpu (need 64; best node has 8 free)" in result.out
    assert "TAINT         node(s) had untolerated taint {gpu: reserved}" in result.out
    assert "tolerate the taint" in result.out
    assert "a pod on a node was deleted or finished" in result.out
    assert "FailedScheduling" in result.out.partition("events")[2]
    assert "port-forward deployment/gpu-scheduler 8090:8090" in result.out
    assert "cannot be read" not in result.out


def test_without_the_right_to_events_the_pod_still_says_why(
    pending: Watcher, kubeconfig: Kubeconfig
) -> None:
    result = why(pending.namespace, "big", kubeconfig("blind", READ_POD))

    assert result.status == 2
    assert "INSUFFICIENT" in result.out
    assert "events cannot be read: 403 Forbidden" in result.out


def test_suggested_command_names_the_lease_holder(pending: Watcher, kubeconfig: Kubeconfig) -> None:
    """A user that may read the Lease but not forward gets the command for an administrator."""
    config = kubeconfig("lease", READ_POD, READ_EVENTS, elsewhere=(NAMESPACE, READ_LEASE))

    result = why(pending.namespace, "big", config, "-o", "json")

    forward, again = json.loads(result.out)["more"]
    target = f"--namespace {NAMESPACE} port-forward pod/{socket.gethostname()} 8090:8090"
    assert forward.endswith(target)
    assert again == f"gpuctl why big -n {pending.namespace} --server http://127.0.0.1:8090"


def test_decisions_api_explains_every_node(
    pending: Watcher, product: Product, kubeconfig: Kubeconfig
) -> None:
    config = kubeconfig("both", READ_POD, READ_EVENTS)
    told: Json = {}

    def agree() -> bool:
        """The pod's condition is written after the decision."""
        asked = why(pending.namespace, "big", config, *server(product), "-o", "json")
        told.update(json.loads(asked.out))
        last = told["answer"]["decisions"][0]["outcome"]
        return bool(last["message"] == told["witness"]["message"])

    wait_until(agree, what="the pod's condition to be that of the last decision", last=lambda: told)
    result = why(pending.namespace, "big", config, *server(product), "-o", "wide")

    assert result.status == 2
    assert "why-large  NodeResourcesFit  INSUFFICIENT" in result.out
    assert "Insufficient nvidia.com/gpu (need 64; 8 free), even when empty" in result.out
    assert "why-small  TaintToleration   TAINT" in result.out
    assert "in the queue for" in result.out
    answer = told["answer"]
    assert answer["leads"]
    assert {one["node"] for one in answer["now"]["refusals"]} >= {"why-large", "why-small"}


def test_decision_has_one_id_everywhere(
    cp: ControlPlane,
    product: Product,
    namespace: str,
    kwok_node: MakeNode,
    kubeconfig: Kubeconfig,
) -> None:
    """On the pod, in the event, in the log line and in the journal."""
    kwok_node("why-map", labels={"gpu-node-name": "mapped"})
    here = Watcher(cp, namespace)
    here.create(pod("m-0", annotations={"gpu-scheduling-map": "0=mapped:2,3"}))
    [bound] = here.wait_bound(1)
    decision = annotation(bound, DECISION)
    assert decision is not None
    seen = cp.client.wait_for(
        f"/api/v1/namespaces/{namespace}/events",
        lambda seen: any(item["reason"] == "Scheduled" for item in seen["items"]),
        what="the event",
    )
    [event] = [item for item in seen["items"] if item["reason"] == "Scheduled"]

    result = why(namespace, "m-0", kubeconfig("map", READ_POD, READ_EVENTS), *server(product))

    assert result.status == 0, result.err
    assert "is on why-map" in result.out
    assert "devices               gpu:2,3" in result.out
    assert "CUDA_VISIBLE_DEVICES  2,3" in result.out
    assert event["metadata"]["annotations"][DECISION] == decision
    assert f"[decision {decision}]" in result.out
    assert f"{decision}  1    on why-map (gpu:2,3); Binding bound" in result.out
    wait_logged(product, "scheduler", "pod m-0 to")
    [line] = [line for line in product.log("scheduler").splitlines() if "pod m-0 to" in line]
    assert f"decision={decision}" in line


def test_degraded_pod_shows_the_full_tier(
    cp: ControlPlane,
    product: Product,
    namespace: str,
    kwok_node: MakeNode,
    kubeconfig: Kubeconfig,
) -> None:
    kwok_node("why-mig", mig={"2g.20gb": 1, "1g.10gb": 4})
    here = Watcher(cp, namespace)
    slices = {"nvidia.com/mig-2g.20gb": "1"}
    here.create(controlled("Deployment", "web", replicas=2, limits=slices))
    pods = here.wait_bound(2)
    [stepped] = [one for one in pods if annotation(one, "gpu-webhook.k8s.io/fallback")]
    name = stepped["metadata"]["name"]
    config = kubeconfig("mig", READ_POD, READ_EVENTS)

    alone = why(namespace, name, config)
    told = json.loads(why(namespace, name, config, *server(product), "-o", "json").out)

    assert alone.status == 0
    assert "stepped down  2g.20gb->1g.10gb" in alone.out
    admission = told["answer"]["admission"]
    assert (admission["result"], admission["asked"], admission["granted"]) == (
        "degraded",
        "2g.20gb",
        "1g.10gb",
    )
    tried = {one["tier"]: one["message"] for one in admission["tried"]}
    assert "Insufficient nvidia.com/mig-2g.20gb" in tried["2g.20gb"]


def test_why_runs_as_a_kubectl_plugin(pending: Watcher, cp: ControlPlane, tmp_path: Path) -> None:
    """By the name under which the package installs it; options go behind the plugin's name."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        module, function = tomllib.load(file)["project"]["scripts"][PLUGIN].split(":")
    program = tmp_path / PLUGIN
    program.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n")
    program.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    words = ["gpu-scheduler", "why", "big", "-n", pending.namespace, "--no-forward"]

    done = subprocess.run(
        [cp.program("kubectl"), *words, "--kubeconfig", cp.kubeconfig],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 2, done.stderr
    assert f"{pending.namespace}/big waits" in done.stdout


def test_missing_pod_is_one_line_and_an_error(
    product: Product, namespace: str, kubeconfig: Kubeconfig
) -> None:
    assert product.is_running("scheduler")
    result = why(namespace, "absent", kubeconfig("absent", READ_POD))

    assert result.status == 1
    assert result.err == f"gpuctl why: pod absent not found in namespace {namespace}\n"


def test_user_without_rights_gets_a_message(namespace: str, cp: ControlPlane) -> None:
    result = why(namespace, "big", cp.kubeconfig_for_user(f"no-rights-{namespace}"))

    assert result.status == 1
    assert 'cannot get resource "pods"' in result.err
    assert result.err.count("\n") == 1


def test_tenant_gets_an_answer_or_what_an_admin_runs(
    pending: Watcher, kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    """A user who may only read pods and events of one namespace."""
    config = kubeconfig("tenant", LIST_PODS, READ_EVENTS)
    space = pending.namespace

    def asked(*words: str) -> CommandOutput:
        found = gpuctl(*words, "--kubeconfig", str(config))
        assert str(config) not in found.out + found.err, "an admin has another identity"
        assert found.err.count("\n") <= 1
        return found

    waiting = asked("why", "-n", space)
    room = [asked(*words, "-n", space) for words in (("free",), ("top",), ("top", "namespaces"))]
    plan = asked("defrag", "big", "-n", space)
    saved = asked("snapshot", "-o", str(tmp_path / "snapshot.json"))
    everywhere = [asked("why", "-A"), asked("top")]
    tried = asked("verify")

    forward = f"kubectl --namespace {NAMESPACE} port-forward deployment/gpu-scheduler 8090:8090"
    again = "--server http://127.0.0.1:8090"
    assert waiting.status == 2
    assert f"{space}/big" in waiting.out
    assert f"{forward}\n  gpuctl why -n {space} {again}" in waiting.out
    assert [one.status for one in room] == [0, 0, 0]
    assert all(f"note: only namespace {space}: you may not list nodes" in one.out for one in room)
    assert f"an admin can run: {forward}   and in another terminal   gpuctl defrag" in plan.err
    assert f"an admin can run: {forward}   and in another terminal   gpuctl snapshot" in saved.err
    assert all(
        one.err.endswith("; pass -n with a namespace whose pods you may list\n")
        for one in everywhere
    )
    assert tried.err.endswith("; verify needs the rights of an administrator (docs/verify.md)\n")
    assert [one.status for one in (plan, saved, *everywhere, tried)] == [1] * 5


def test_live_snapshot_replays_byte_for_byte(
    pending: Watcher, product: Product, tmp_path: Path
) -> None:
    pending.create(pod("lost-0", annotations={"gpu-scheduling-map": "0=nowhere:0"}))
    pending.wait_explained("lost-0", "nowhere")
    file = tmp_path / "snapshot.json"

    def fetch_snapshot() -> CommandOutput:
        return gpuctl("snapshot", "-o", str(file), *server(product))

    # The scheduler may not have seen the end of an earlier test's pods.
    wait_until(lambda: "2 of them wait" in fetch_snapshot().err, what="two waiting pods")
    fetched = fetch_snapshot()
    replay = gpuctl("replay", str(file), "--check")
    one = gpuctl("replay", str(file), "--check", "--pod", f"{pending.namespace}/big")

    assert fetched.status == 0, fetched.err
    assert "2 of them wait" in fetched.err
    assert replay.status == 0, replay.out
    assert "2 of 2 decisions are the same, byte for byte" in replay.out
    assert "why-large  NodeResourcesFit  INSUFFICIENT" in one.out
    kept: dict[str, Any] = json.loads(file.read_text())
    assert kept["kind"] == "Snapshot"


def test_snapshot_waits_for_the_next_decision(
    pending: Watcher, product: Product, kwok_node: MakeNode, tmp_path: Path
) -> None:
    """The node that comes is in the state, the placement that it brings is not yet."""
    file = tmp_path / "snapshot.json"
    key = f"{pending.namespace}/big"
    words = ["snapshot", "--next", key, "-o", str(file), *server(product)]
    with subprocess.Popen([sys.executable, "-m", "gpuctl", *words], cwd=ROOT) as snapshot:
        wait_until(
            lambda: json.loads(fetch(product.decisions_port, "/decisions")).get("awaited") == 1,
            what="the scheduler to be asked for the next decision",
        )
        kwok_node("why-huge", gpus=64)
        assert snapshot.wait(timeout=PATIENCE_S) == 0
    replay = gpuctl("replay", str(file), "--check", "-o", "json")

    assert replay.status == 0
    [one] = json.loads(replay.out)
    assert one["now"]["node"] == "why-huge"
    assert one["then"] == one["now"]
