"""What the scheduler's account, a tenant and another scheduler may not write: on a real API server,
with the shipped roles and policies and without any of our programs.

Each test is a takeover or a forgery that once worked (docs/security.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
import yaml

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.tenants import said
from tools.controlplane import Client, ControlPlane, FakeNode, add_nodes, wait_until
from tools.product import ACCOUNT, ROOT

FILES: Final = (
    "rbac.yaml",
    "rbac-migrations.yaml",
    "admission-policies.yaml",
    "fencing-policy.yaml",
    "rbac-preemption.yaml",
    "preemption-policy.yaml",
)
STRATEGIC: Final = "application/strategic-merge-patch+json"
MERGE: Final = "application/merge-patch+json"
RESERVATION: Final = "r-" + "0a" * 8
OTHER: Final = "another-scheduler"
Json = dict[str, Any]


@pytest.fixture(scope="module")
def account(cp: ControlPlane) -> Client:
    """The scheduler's ServiceAccount."""
    cp.kubectl("apply", *named(FILES[0]))
    return cp.client_for(ACCOUNT)


@pytest.fixture(scope="module", autouse=True)
def _in_force(cp: ControlPlane, account: Client) -> Iterator[None]:
    """The shipped roles and policies, each of which has refused something."""
    cp.wait_for_service_account("default")
    cp.kubectl("apply", *named(*FILES))
    path = pods("default")
    cp.client.create(path, body("free", scheduler=OTHER))

    def refuses(text: str, write: Callable[[], object]) -> None:
        wait_until(lambda: text in said(write), what=f"the API server to say {text!r}")

    labels = {"metadata": {"labels": {"a": "b"}}}
    binding = a_binding("free", {well_known.DEVICES: "gpu:0"})
    dry = "?dryRun=All"
    refuses("status", lambda: account.patch(f"{path}/free/status{dry}", labels))
    refuses("schedulerName", lambda: account.delete(f"{path}/free{dry}"))
    alone = team(cp, "default")
    refuses("by a Binding", lambda: alone.create(f"{path}/free/binding{dry}", binding))
    cp.client.delete(f"{path}/free", {"gracePeriodSeconds": 0})
    yield
    cp.kubectl("delete", "--ignore-not-found", *named(FILES[2], FILES[3], FILES[5]))


def named(*files: str) -> list[str]:
    """The words by which kubectl gets files of ``cluster/``."""
    return [word for name in files for word in ("-f", str(ROOT / "cluster" / name))]


def pods(namespace: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def body(
    name: str,
    annotations: Json | None = None,
    scheduler: str = well_known.SCHEDULER_NAME,
    **spec: Any,
) -> Json:
    """A pod."""
    containers = [{"name": "app", "image": "none"}]
    return {
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"schedulerName": scheduler, "containers": containers, **spec},
    }


def a_binding(name: str, annotations: Json, node: str = "nowhere") -> Json:
    """As a scheduler sends it."""
    meta = {"name": name, "annotations": annotations}
    target = {"kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}


def team(cp: ControlPlane, namespace: str) -> Client:
    """A team's own scheduler: it may bind in one namespace, and nothing else."""
    meta = {"name": "team-binder", "namespace": namespace}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    rule = {"apiGroups": [""], "resources": ["pods/binding", "bindings"], "verbs": ["create"]}
    group = "rbac.authorization.k8s.io"
    subject = {"kind": "User", "name": "team", "apiGroup": group}
    objects = [
        {**kind, "kind": "Role", "metadata": meta, "rules": [rule]},
        {
            **kind,
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "team-binder"},
            "subjects": [subject],
        },
    ]
    cp.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    return cp.client_for_user("team")


# --- the scheduler's account, taken over --------------------------------------------------------


def run_victim(cp: ControlPlane, namespace: str, node: str) -> str:
    """The path of a tenant's running pod, with a condition of another controller."""
    path = pods(namespace, "victim")
    cp.client.create(pods(namespace), body("victim", {"x": "y"}, OTHER))
    cp.client.create(f"{path}/binding", a_binding("victim", {}, node))
    cp.client.wait_for(path, lambda p: p["status"].get("phase") == "Running", what="it to run")
    kept = {"status": {"conditions": [{"type": "example.com/kept", "status": "True"}]}}
    cp.client.patch(f"{path}/status", kept, content_type=STRATEGIC)
    return path


@pytest.fixture
def victim(cp: ControlPlane, namespace: str, kwok_node: MakeNode) -> str:
    """Such a pod for one test."""
    return run_victim(cp, namespace, kwok_node("victims"))


@pytest.fixture(scope="module")
def unchanged_victim(cp: ControlPlane) -> Iterator[str]:
    """One for all tests in which every change is refused."""
    add_nodes(cp.client, [FakeNode(name="unchanged")])
    path = run_victim(cp, "default", "unchanged")
    yield path
    cp.client.delete(path, {"gracePeriodSeconds": 0})
    cp.client.delete("/api/v1/nodes/unchanged")


TAKEOVERS: Final = {
    "labels": {"metadata": {"labels": {"app": "shop-frontend"}}},
    "annotations": {"metadata": {"annotations": {"x": "changed"}}},
    "no-annotations": {"metadata": {"annotations": None}},
    "finalizers": {"metadata": {"finalizers": ["example.com/stuck"]}},
    "phase": {"status": {"phase": "Failed"}},
    "address": {"status": {"podIP": "6.6.6.6", "podIPs": [{"ip": "6.6.6.6"}]}},
    "message": {"status": {"message": "evil"}},
    "no-containers": {"status": {"containerStatuses": None}},
    "ready": {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    "a-new-condition": {"status": {"conditions": [{"type": "example.com/new", "status": "True"}]}},
    "no-condition": {
        "status": {"conditions": [{"type": "example.com/kept", "$patch": "delete"}]},
    },
}


@pytest.mark.parametrize("patch", TAKEOVERS.values(), ids=TAKEOVERS)
def test_account_changes_only_scheduler_fields_of_a_running_pod(
    account: Client, client: Client, unchanged_victim: str, patch: Json
) -> None:
    def seen() -> tuple[Any, ...]:
        now = client.get(unchanged_victim)
        meta = {key: now["metadata"].get(key) for key in ("labels", "annotations", "finalizers")}
        return meta, now["status"]

    before = seen()
    # Conditions are merged by their type, everything else is put in the place of what there is.
    way = STRATEGIC if "conditions" in patch.get("status", {}) else MERGE
    answer = said(lambda: account.patch(f"{unchanged_victim}/status", patch, content_type=way))

    assert answer.startswith("403 ")
    assert re.search(r"gpu-scheduler may (not )?change ", answer)
    assert seen() == before


SCHEDULED: Final = {"type": "PodScheduled", "status": "False", "message": "no room"}
DISRUPTED: Final = {"type": "DisruptionTarget", "status": "True", "reason": "Preempted"}


@pytest.mark.parametrize(
    ("state", "status"),
    [
        pytest.param("pending", {"conditions": [SCHEDULED]}, id="PodScheduled"),
        pytest.param("pending", {"conditions": [DISRUPTED]}, id="DisruptionTarget"),
        pytest.param("running", {"conditions": [SCHEDULED]}, id="PodScheduled-running"),
        pytest.param("running", {"conditions": [DISRUPTED]}, id="DisruptionTarget-running"),
        pytest.param("pending", {"nominatedNodeName": "node-1"}, id="nominatedNodeName"),
        pytest.param("pending", {"nominatedNodeName": None}, id="no-nominatedNodeName"),
    ],
)
def test_the_account_writes_what_a_scheduler_writes(
    cp: ControlPlane, account: Client, namespace: str, victim: str, status: Json, state: str
) -> None:
    path = victim
    if state == "pending":
        path = pods(namespace, "waits")
        cp.client.create(pods(namespace), body("waits", {"a": "b"}))
    patched = account.patch(f"{path}/status", {"status": status}, content_type=STRATEGIC)

    for one in status.get("conditions", ()):
        (found,) = [c for c in patched["status"]["conditions"] if c["type"] == one["type"]]
        assert one.items() <= found.items()
    if "nominatedNodeName" in status:
        assert patched["status"].get("nominatedNodeName") == status["nominatedNodeName"]


def test_other_accounts_still_write_pod_status(client: Client, victim: str) -> None:
    """The policy ignores the kubelet and all other accounts."""
    assert client.patch(f"{victim}/status", {"status": {"message": "seen"}})


def test_account_deletes_neither_foreign_pods_nor_bound_pods(
    cp: ControlPlane, account: Client, namespace: str, victim: str
) -> None:
    cp.client.create(pods(namespace), body("of-another", scheduler=OTHER))
    cp.client.create(pods(namespace), body("of-ours"))

    assert "only pods with its own schedulerName" in said(
        lambda: account.delete(pods(namespace, "of-another"))
    )
    assert "only if its condition DisruptionTarget" in said(lambda: account.delete(victim))
    account.delete(pods(namespace, "of-ours"))


@pytest.mark.parametrize("kind", ["mutating", "validating"])
def test_the_account_has_no_right_on_a_registration(account: Client, kind: str) -> None:
    """An account that may patch one could read every written Secret and become cluster-admin."""
    path = f"/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
    one = f"{path}/gpu-scheduler-webhook"
    for write in (
        lambda: account.get(path),
        lambda: account.get(one),
        lambda: account.patch(one, {"metadata": {"labels": {"a": "b"}}}),
        lambda: account.create(path, {"metadata": {"name": "evil"}, "webhooks": []}),
    ):
        assert said(write).startswith("403 ")


# --- Bindings of others --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param({well_known.DEVICES: "gpu:0,1,2,3", well_known.EPOCH: "1"}, id="devices"),
        pytest.param({well_known.RESERVATION: RESERVATION}, id="reservation"),
        pytest.param({well_known.PREFIX + "anything": ""}, id="our-prefix"),
        pytest.param(
            {f"a{n}": "" for n in range(257)} | {well_known.DEVICES: "gpu:0"}, id="hidden"
        ),
    ],
)
@pytest.mark.parametrize("way", ["pods/binding", "bindings"])
def test_other_scheduler_writes_no_annotation_of_ours(
    cp: ControlPlane, namespace: str, kwok_node: MakeNode, annotations: Json, way: str
) -> None:
    node = kwok_node("teams")
    cp.client.create(pods(namespace), body("fb"))
    path = f"/api/v1/namespaces/{namespace}/bindings"
    where = pods(namespace, "fb/binding") if way == "pods/binding" else path
    scheduler = team(cp, namespace)

    wait_until(
        lambda: (
            "by a Binding"
            in said(lambda: scheduler.create(where, a_binding("fb", annotations, node)))
        ),
        what="the team's right, and the policy's refusal",
    )

    assert "nodeName" not in cp.client.get(pods(namespace, "fb"))["spec"]


def test_other_scheduler_binds_with_its_own_annotations(
    cp: ControlPlane, namespace: str, kwok_node: MakeNode
) -> None:
    node = kwok_node("teams")
    cp.client.create(pods(namespace), body("fb", scheduler=OTHER))
    scheduler, sent = team(cp, namespace), a_binding("fb", {"team/rank": "1"}, node)

    wait_until(
        lambda: not said(lambda: scheduler.create(pods(namespace, "fb/binding"), sent)),
        what="the Binding to be taken",
    )

    found = cp.client.get(pods(namespace, "fb"))
    assert found["spec"]["nodeName"] == node
    assert found["metadata"]["annotations"] == {"team/rank": "1"}


def test_second_release_binds_with_our_annotations(
    cp: ControlPlane, namespace: str, kwok_node: MakeNode
) -> None:
    """Its account has the right `assign` by its role, whatever it is called."""
    node = kwok_node("second")
    role = (ROOT / "cluster/rbac.yaml").read_text()
    second = role.replace("gpu-scheduler-system", namespace).replace(
        "name: gpu-scheduler\n", "name: gpu-scheduler-second\n"
    )
    objects = [one for one in yaml.safe_load_all(second) if one["kind"] != "Namespace"]
    cp.kubectl("apply", "-f", "-", input=yaml.safe_dump_all(objects))
    cp.client.create(pods(namespace), body("theirs", scheduler="second"))
    release = cp.client_for(f"{namespace}/gpu-scheduler-second")
    sent = a_binding("theirs", {well_known.DEVICES: "gpu:0"}, node)
    try:
        wait_until(
            lambda: not said(lambda: release.create(pods(namespace, "theirs/binding"), sent)),
            what="the Binding to be taken",
        )
    finally:
        for kind in ("clusterrolebinding", "clusterrole"):
            cp.kubectl("delete", kind, "gpu-scheduler-second")


POLICIES: Final = (
    "protected-annotations",
    "bindings",
    "fencing",
    "deletes",
    "status",
    "volumes",
    "claims",
    "claim-terms",
    "extended-resources",
    "partitions",
    "preemptions",
)


@pytest.mark.parametrize("name", POLICIES)
def test_policy_type_checking_has_no_warnings(client: Client, name: str) -> None:
    """It reads the expressions with the schemas of this Kubernetes."""
    kind = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    found = client.wait_for(
        f"{kind}/gpu-scheduler-{name}",
        lambda p: p.get("status", {}).get("observedGeneration") == p["metadata"]["generation"],
        what="the policy to be read",
    )

    assert not found["status"].get("typeChecking", {}).get("expressionWarnings")
