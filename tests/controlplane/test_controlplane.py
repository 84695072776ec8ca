"""The control plane itself: what every other test in this folder takes for granted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.controlplane.audit_log import AuditLog
from tests.controlplane.dra_objects import kube_scheduler
from tools.controlplane import (
    DEFAULT_COMPONENTS,
    ApiError,
    Client,
    ControlPlane,
    ControlPlaneError,
    ProcessDied,
    ensure,
    wait_until,
)
from tools.controlplane.process import command_line
from tools.controlplane.programs.versions import CONTROL_PLANE_KUBERNETES

ROOT = Path(__file__).parents[2]
MIG = "nvidia.com/mig-1g.10gb"

MakeNode = Callable[..., str]


def pods_of(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def spec(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "main", "image": "none"}], **more}


def has_phase(phase: str) -> Callable[[Any], bool]:
    return lambda pod: pod is not None and pod["status"].get("phase") == phase


def run_pod(client: Client, namespace: str, manifest: Mapping[str, Any]) -> str:
    """Create a pod that names its node, and return its path once it runs."""
    name = client.create(pods_of(namespace), manifest)["metadata"]["name"]
    path = f"{pods_of(namespace)}/{name}"
    client.wait_for(path, has_phase("Running"), what=f"pod {name} to run")
    return path


def test_every_program_answers_in_the_version_that_is_pinned(cp: ControlPlane) -> None:
    """What starts is Kubernetes in the pinned version, without a scheduler of its own."""
    version = cp.client.get("/version")

    assert version["gitVersion"] == f"v{CONTROL_PLANE_KUBERNETES}"
    assert set(cp.processes) == DEFAULT_COMPONENTS | {"kwok"}
    wait_until(lambda: all(cp.is_ready(name) for name in cp.processes), what="all to be ready")


def test_a_fake_node_keeps_the_resources_it_was_given(
    cp: ControlPlane, kwok_node: MakeNode
) -> None:
    """KWOK makes a node Ready and touches neither capacity nor allocatable."""
    name = kwok_node(
        "keeps",
        gpus=4,
        mig={"1g.10gb": 28},
        labels={"zone": "a"},
        taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}],
    )

    node = cp.client.get(f"/api/v1/nodes/{name}")
    basics = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    wanted = {**basics, "nvidia.com/gpu": "4", MIG: "28"}
    assert node["status"]["capacity"] == wanted
    assert node["status"]["allocatable"] == wanted
    assert node["metadata"]["labels"]["zone"] == "a"
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["gpu"]


def test_manually_bound_deployment_pod_runs(
    client: Client, namespace: str, kwok_node: MakeNode
) -> None:
    """A real controller makes the pod, a Binding places it, KWOK runs it; no other program acts."""
    node = kwok_node("bound")
    labels = {"app": "web"}
    client.create(
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        {
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": spec(schedulerName="gpu-scheduler"),
                },
            },
        },
    )
    made = client.wait_for(
        pods_of(namespace), lambda seen: len(seen["items"]) == 1, what="the Deployment's pod"
    )
    name = made["items"][0]["metadata"]["name"]
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": {"gpu-scheduler.io/devices": "gpu:0"}},
        "target": {"kind": "Node", "name": node},
    }
    client.create(f"{pods_of(namespace)}/{name}/binding", binding)
    pod = client.wait_for(f"{pods_of(namespace)}/{name}", has_phase("Running"), what="the pod")

    assert pod["spec"]["nodeName"] == node
    assert pod["metadata"]["annotations"]["gpu-scheduler.io/devices"] == "gpu:0"
    conditions = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
    assert conditions["PodScheduled"] == conditions["Ready"] == "True"


def test_a_pod_ends_by_itself_only_if_it_says_so(
    client: Client, namespace: str, kwok_node: MakeNode
) -> None:
    """The label's duration ends a pod; one without it still runs, a Job's pod too."""
    node = kwok_node("ends")
    stays = run_pod(client, namespace, {"metadata": {"name": "stays"}, "spec": spec(nodeName=node)})
    labels = {"gpu-scheduler.io/demo-completes": "50ms"}
    ends = {"metadata": {"name": "ends", "labels": labels}, "spec": spec(nodeName=node)}
    client.create(pods_of(namespace), ends)
    client.wait_for(
        f"{pods_of(namespace)}/ends", has_phase("Succeeded"), what="the pod to run and to end"
    )

    assert client.get(stays)["status"]["phase"] == "Running"


def test_a_jobs_pods_complete_it(client: Client, namespace: str, kwok_node: MakeNode) -> None:
    """The real Job controller counts a pod that ended and completes the Job."""
    node = kwok_node("job")
    template = {
        "metadata": {"labels": {"gpu-scheduler.io/demo-completes": "50ms"}},
        "spec": spec(nodeName=node, restartPolicy="Never"),
    }
    path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    client.create(path, {"metadata": {"name": "work"}, "spec": {"template": template}})

    job = client.wait_for(
        f"{path}/work", lambda seen: bool(seen["status"].get("completionTime")), what="the Job"
    )
    assert job["status"]["succeeded"] == 1


def test_a_deleted_pod_is_gone_without_its_grace_period(
    client: Client, namespace: str, kwok_node: MakeNode
) -> None:
    """KWOK confirms a deletion at once, whatever grace period the pod asks for."""
    manifest = {
        "metadata": {"name": "goes"},
        "spec": spec(nodeName=kwok_node("goes"), terminationGracePeriodSeconds=3600),
    }
    path = run_pod(client, namespace, manifest)
    client.delete(path)

    assert client.wait_for(path, lambda pod: pod is None, what="the pod to go") is None


def test_a_service_account_may_do_what_its_role_says_and_no_more(
    cp: ControlPlane, namespace: str
) -> None:
    """RBAC is really asked: refused without a role, allowed with it, refused beyond it."""
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    account = cp.client_for(f"{namespace}/default")
    with pytest.raises(ApiError) as refused:
        account.get(pods_of(namespace))
    assert refused.value.status == 403

    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    cp.client.create(f"{base}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    cp.client.create(
        f"{base}/rolebindings",
        {"metadata": {"name": "reader"}, "roleRef": reference, "subjects": [subject]},
    )
    kubeconfig = cp.kubeconfig_for(f"{namespace}/default")

    def is_known() -> bool:
        try:
            return cp.kubectl("auth", "can-i", "list", "pods", kubeconfig=kubeconfig) == "yes\n"
        except ControlPlaneError:  # by its exit status kubectl says no
            return False

    wait_until(is_known, what="the role to be known")
    with pytest.raises(ControlPlaneError, match="cannot create resource"):
        cp.kubectl("create", "configmap", "no", kubeconfig=kubeconfig)


def test_a_kept_connection_outlives_a_refusal(client: Client, namespace: str) -> None:
    """Hundreds of requests share a connection, and an error in between does not end it."""
    with client.kept() as kept:
        for _ in range(3):
            with pytest.raises(ApiError) as refused:
                kept.get(f"{pods_of(namespace)}/absent")
            assert refused.value.status == 404
            assert refused.value.reason == "NotFound"
            assert kept.get(pods_of(namespace))["items"] == []


def test_a_certificate_is_a_user_with_groups(cp: ControlPlane) -> None:
    """A client certificate's common name and organisations are user and groups."""
    kubeconfig = cp.kubeconfig_for_user("jane", ["team-a"])
    answer = json.loads(cp.kubectl("auth", "whoami", "-o", "json", kubeconfig=kubeconfig))

    assert answer["status"]["userInfo"]["username"] == "jane"
    assert answer["status"]["userInfo"]["groups"] == ["team-a", "system:authenticated"]


def test_audit_log_records_user_and_request(cp: ControlPlane, namespace: str) -> None:
    """Each write is in the audit log with its user."""
    log = AuditLog(cp.audit_log, f'"{namespace}"')

    def creators() -> set[str]:
        return {
            event["user"]["username"]
            for event in log.events()
            if event["verb"] == "create"
            and event.get("objectRef", {}).get("resource") == "namespaces"
            and event["objectRef"].get("name") == namespace
        }

    # The API server writes an event after its response.
    wait_until(lambda: bool(creators()), what="the creation in the audit log")
    assert creators() == {"admin"}


def test_the_stock_scheduler_can_be_started_beside_it(
    cp: ControlPlane, namespace: str, kwok_node: MakeNode
) -> None:
    """The peer is off until a test wants it, and gone when the test has stopped it."""
    node = kwok_node("stock", mig={"1g.10gb": 1})
    pod = {"metadata": {"name": "peer"}, "spec": spec()}
    pod["spec"]["containers"][0]["resources"] = {"limits": {MIG: "1"}}
    with kube_scheduler(cp):
        path = run_pod(cp.client, namespace, pod)
        assert cp.client.get(path)["spec"]["nodeName"] == node
    assert "kube-scheduler" not in cp.processes


@pytest.mark.parametrize(
    "crash", [pytest.param(False, id="asked"), pytest.param(True, id="killed")]
)
def test_the_api_server_comes_back_with_everything(
    cp: ControlPlane, namespace: str, crash: bool
) -> None:
    """After a restart the same address serves the same objects from a new process."""
    before = cp.processes["kube-apiserver"]
    uid = cp.client.get(f"/api/v1/namespaces/{namespace}")["metadata"]["uid"]

    cp.restart("kube-apiserver", crash=crash)

    assert cp.processes["kube-apiserver"] != before
    assert command_line(before) == ""
    assert cp.client.get(f"/api/v1/namespaces/{namespace}")["metadata"]["uid"] == uid


def test_a_program_that_dies_at_the_start_says_why(tmp_path: Path) -> None:
    """The error carries the end of the program's log, and nothing is left running."""
    with pytest.raises(ProcessDied, match="unknown flag: --no-such-flag"):
        ControlPlane.start(tmp_path, api_server_flags=["--no-such-flag"])

    state = json.loads((tmp_path / "state.json").read_text())
    assert state["pids"] == {}


def test_start_survives_a_lost_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clash between the choice of a port and its use is answered with other ports."""
    etcd, once = tmp_path / "etcd", tmp_path / "once"
    complaint = "listen tcp 127.0.0.1:1: bind: address already in use"
    etcd.write_text(
        f"#!/bin/sh\nif [ ! -e '{once}' ]; then echo '{complaint}' | tee '{once}'; exit 1; fi\n"
        f"exec '{ensure(['etcd'])['etcd']}' \"$@\"\n"
    )
    etcd.chmod(0o755)
    monkeypatch.setenv("TEST_ASSET_ETCD", str(etcd))

    with ControlPlane.start(tmp_path / "plane", components=[], kwok=False) as plane:
        assert set(plane.processes) == {"etcd", "kube-apiserver"}
        assert complaint in plane.log("etcd").read_text()


def test_a_folder_that_is_in_use_is_refused(cp: ControlPlane) -> None:
    """Two control planes never share a folder."""
    with pytest.raises(ControlPlaneError, match="not empty"):
        ControlPlane.start(cp.layout.directory)


def controlplane(state: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with a state folder of the test's own."""
    return subprocess.run(
        [sys.executable, "-m", "tools.controlplane", *words],
        cwd=ROOT,
        env={**os.environ, "XDG_STATE_HOME": str(state)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_up_and_down_leave_nothing_behind(cp: ControlPlane, tmp_path: Path) -> None:
    """A second control plane beside the first: usable after up, and all gone after down."""
    folder = tmp_path / "gpu-scheduler" / "controlplane" / "mine"
    up = controlplane(tmp_path, "up", "--name", "mine", "--nodes", "2", "--gpus", "4")
    try:
        assert up.returncode == 0, up.stderr
        kubeconfig = Path(up.stdout.removeprefix("export KUBECONFIG=").strip())
        pids = ControlPlane.attach(folder).processes
        status = controlplane(tmp_path, "status", "--name", "mine")
        columns = "custom-columns=:.metadata.name,:.status.allocatable.nvidia\\.com/gpu"
        nodes = cp.kubectl("get", "nodes", "--no-headers", "-o", columns, kubeconfig=kubeconfig)
    finally:
        down = controlplane(tmp_path, "down", "--name", "mine")

    assert [line.split() for line in nodes.splitlines()] == [["gpu-0", "4"], ["gpu-1", "4"]]
    assert status.returncode == 0, status.stdout
    assert len(pids) == 5
    assert down.returncode == 0, down.stderr
    assert [pid for pid in pids.values() if str(folder) in command_line(pid)] == []
    assert not folder.exists()


def test_down_spares_a_process_with_a_reused_pid(tmp_path: Path) -> None:
    """A recorded process id that another process has now is left alone."""
    folder = tmp_path / "gpu-scheduler" / "controlplane" / "old"
    folder.mkdir(parents=True)
    ports = dict.fromkeys(
        ["etcd", "etcd_peer", "api_server", "controller_manager", "scheduler", "kwok"], 1
    )
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        state = {"ports": ports, "options": {}, "pids": {"etcd": stranger.pid}}
        (folder / "state.json").write_text(json.dumps(state))
        down = controlplane(tmp_path, "down", "--name", "old")

        assert down.returncode == 0, down.stderr
        assert stranger.poll() is None
    finally:
        stranger.communicate(b"\n")
