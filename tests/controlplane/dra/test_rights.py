"""What the scheduler's account may write of ResourceClaims: on a real API server, with the shipped
roles and policies (docs/security.md)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.controlplane.tenants import said
from tests.dra import FINALIZER, allocation_json, claim_json, consumer_json, result_json
from tools.controlplane import Client, ControlPlane, wait_until
from tools.product import ACCOUNT, Product

Json = dict[str, Any]
STRATEGIC: Final = "application/strategic-merge-patch+json"
#: The term of a write; an API server may know an older one of the lease.
LEADER: Final = "fieldManager=gpu-scheduler-term-9999999999"
LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler-system/leases/gpu-scheduler"


@pytest.fixture
def account(cp: ControlPlane, product: Product) -> Client:
    """The scheduler's ServiceAccount."""
    assert product.is_running("scheduler")
    return cp.client_for(ACCOUNT)


@pytest.fixture
def claim(cp: ControlPlane, account: Client, namespace: str) -> str:
    """The path of a claim that two pods have reserved."""
    claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    path = f"{claims}/gpu"
    body = claim_json()
    cp.client.create(
        claims, {"metadata": {"name": "gpu", "labels": {"a": "b"}}, "spec": body["spec"]}
    )
    cp.client.patch(path, {"metadata": {"finalizers": [FINALIZER, "example.com/kept"]}})
    users = [pod(cp, namespace, name) for name in ("one", "two")]
    status = {"allocation": allocation_json(result_json()), "reservedFor": users}
    cp.client.patch(f"{path}/status", {"status": status})
    labels = {"metadata": {"labels": {"a": "c"}}}
    wait_until(
        lambda: "403" in said(lambda: account.patch(f"{path}?dryRun=All&{LEADER}", labels)),
        what="the policy to be in force",
    )
    return path


def pod(cp: ControlPlane, namespace: str, name: str) -> Json:
    """A pod that waits for another scheduler, as ``reservedFor`` names it."""
    containers = [{"name": "c", "image": "none"}]
    spec = {"schedulerName": "other", "containers": containers}
    path = f"/api/v1/namespaces/{namespace}/pods"
    made = cp.client.create(path, {"metadata": {"name": name}, "spec": spec})
    return {**consumer_json(name), "uid": made["metadata"]["uid"]}


TAKEN: Final = {
    "label": ("", {"metadata": {"labels": {"a": "c"}}}),
    "annotation": ("", {"metadata": {"annotations": {"x": "y"}}}),
    "another-finalizer": ("", {"metadata": {"finalizers": [FINALIZER, "example.com/stuck"]}}),
    "no-finalizer": ("", {"metadata": {"finalizers": [FINALIZER]}}),
    "owner": ("", {"metadata": {"ownerReferences": None, "labels": None}}),
    "all-reservations": ("/status", {"status": {"reservedFor": None}}),
    "allocation": ("/status", {"status": {"allocation": None, "reservedFor": None}}),
}


@pytest.mark.parametrize(("subresource", "patch"), TAKEN.values(), ids=TAKEN)
def test_account_takes_nothing_from_a_claim_in_use(
    account: Client, client: Client, claim: str, subresource: str, patch: Json
) -> None:
    before = client.get(claim)

    answer = said(lambda: account.patch(f"{claim}{subresource}?{LEADER}", patch))

    assert answer.startswith("403 ")
    assert "gpu-scheduler may " in answer
    after = client.get(claim)
    assert (after["metadata"]["labels"], after["status"]) == (
        before["metadata"]["labels"],
        before["status"],
    )


def test_account_releases_one_pod_after_the_other_and_deallocates(
    account: Client, client: Client, claim: str
) -> None:
    one, two = client.get(claim)["status"]["reservedFor"]

    def release(uid: str) -> Json:
        entry = {"$patch": "delete", "uid": uid}
        found: Json = account.patch(
            *(f"{claim}/status?{LEADER}", {"status": {"reservedFor": [entry]}}),
            content_type=STRATEGIC,
        )
        return found

    assert release(one["uid"])["status"]["reservedFor"] == [two]
    assert "allocation" in release(two["uid"])["status"]
    nothing = {"allocation": None, "reservedFor": None, "devices": None}
    assert not account.patch(f"{claim}/status?{LEADER}", {"status": nothing}).get("status")
    assert said(lambda: account.delete(claim)).startswith("403 ")


def test_account_allocates_and_reserves_a_free_claim(
    cp: ControlPlane, account: Client, claim: str, namespace: str
) -> None:
    """`resourceclaims/binding` is in its role for the whole cluster."""
    path = claim.removesuffix("gpu")
    spec = claim_json()["spec"]
    cp.client.create(path.rstrip("/"), {"metadata": {"name": "free"}, "spec": spec})
    user = pod(cp, namespace, "three")

    account.patch(f"{path}free?{LEADER}", {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": allocation_json(result_json("gpu-1")), "reservedFor": [user]}
    found = account.patch(f"{path}free/status?{LEADER}", {"status": status}, content_type=STRATEGIC)

    assert found["status"]["reservedFor"] == [user]
    [result] = found["status"]["allocation"]["devices"]["results"]
    assert result["device"] == "gpu-1"


def test_late_write_of_a_former_leader_changes_no_claim(
    cp: ControlPlane, account: Client, claim: str, namespace: str
) -> None:
    """A release has no version: it would take away what the next leader has reserved."""
    before = cp.client.get(claim)
    first, _ = before["status"]["reservedFor"]
    release = {"status": {"reservedFor": [{"$patch": "delete", "uid": first["uid"]}]}}
    protect = {"metadata": {"finalizers": before["metadata"]["finalizers"]}}
    create = extended_claim(pod(cp, namespace, "three"))
    term = int(cp.client.get(LEASE)["spec"]["leaseTransitions"])

    def answers(manager: str) -> list[str]:
        named = f"?dryRun=All&fieldManager={manager}"
        return [
            said(lambda: account.patch(f"{claim}/status{named}", release, content_type=STRATEGIC)),
            said(lambda: account.patch(f"{claim}{named}", protect)),
            said(lambda: account.create(claim.removesuffix("/gpu") + named, create)),
        ]

    for manager, sent in {f"gpu-scheduler-term-{term - 1}": term - 1, "kubectl": "kubectl"}.items():
        for answer in answers(manager):
            assert f"written in term {sent}, and the lease is in term {term}" in answer
    assert cp.client.get(claim) == before
    late = f"{claim}/status?fieldManager=gpu-scheduler-term-{term}"
    released = account.patch(late, release, content_type=STRATEGIC)
    assert len(released["status"]["reservedFor"]) == 1


def extended_claim(owner: Json, **spec: Any) -> Json:
    """A claim for the extended resources of a pod."""
    controller = {"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"]}
    meta = {
        "name": "three-extended-resources-x",
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{**controller, "controller": True}],
    }
    exactly = {"deviceClassName": "x", "allocationMode": "ExactCount", "count": 1, **spec}
    requests = [{"name": "container-0-request-0", "exactly": exactly}]
    return {"metadata": meta, "spec": {"devices": {"requests": requests}}}


def test_account_creates_and_deletes_claims_for_extended_resources(
    cp: ControlPlane, account: Client, claim: str, namespace: str
) -> None:
    path = claim.removesuffix("/gpu")

    made = account.create(f"{path}?{LEADER}", extended_claim(pod(cp, namespace, "three")))

    account.delete(f"{path}/{made['metadata']['name']}")


@pytest.mark.parametrize(
    ("spec", "meta"),
    [
        pytest.param({}, {"annotations": {}}, id="without-the-annotation"),
        pytest.param({}, {"ownerReferences": []}, id="without-an-owner"),
        pytest.param({"allocationMode": "All", "count": 0}, {}, id="for-all-devices"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, {}, id="with-tolerations"),
    ],
)
def test_account_creates_no_other_claim(
    cp: ControlPlane, account: Client, claim: str, namespace: str, spec: Json, meta: Json
) -> None:
    body = extended_claim(pod(cp, namespace, "three"), **spec)
    body["metadata"] |= meta

    answer = said(lambda: account.create(f"{claim.removesuffix('/gpu')}?{LEADER}", body))

    assert answer.startswith("403 ")
    assert "gpu-scheduler may create" in answer


@pytest.mark.kubernetes("1.36", "DRAExtendedResource is off by default before")
def test_account_names_a_claim_in_a_pods_status(
    cp: ControlPlane, account: Client, claim: str, namespace: str
) -> None:
    assert claim
    resource = "example.com/x"
    container = {"name": "c", "image": "none", "resources": {"limits": {resource: "1"}}}
    spec = {"schedulerName": "other", "containers": [container]}
    path = f"/api/v1/namespaces/{namespace}/pods"
    cp.client.create(path, {"metadata": {"name": "three"}, "spec": spec})
    mapping = {"containerName": "c", "resourceName": resource, "requestName": "r"}
    named = {"resourceClaimName": "x", "requestMappings": [mapping]}

    found = account.patch(
        f"{path}/three/status", {"status": {"extendedResourceClaimStatus": named}}
    )

    assert found["status"]["extendedResourceClaimStatus"] == named
    failed = {"status": {"phase": "Failed"}}
    assert said(lambda: account.patch(f"{path}/three/status", failed)).startswith("403 ")
