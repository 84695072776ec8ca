"""What the scheduler's account may not write of volumes and claims: on a real API server, with the
shipped roles and policies (docs/security.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.controlplane.tenants import said
from tests.storage import BOUND, SELECTED, claim_json, volume_json
from tools.controlplane import Client, ControlPlane, wait_until
from tools.product import ACCOUNT, Product

OURS: Final = "pv.kubernetes.io/bound-by-controller"
Json = dict[str, Any]


@pytest.fixture
def account(cp: ControlPlane, product: Product) -> Client:
    """The scheduler's ServiceAccount."""
    assert product.is_running("scheduler")
    return cp.client_for(ACCOUNT)


PV: Final = "/api/v1/persistentvolumes"
STOLEN: Final = {
    "label": {"metadata": {"labels": {"topology.kubernetes.io/zone": "elsewhere"}}},
    "annotation": {"metadata": {"annotations": {"x": "y"}}},
    "finalizers": {"metadata": {"finalizers": None}},
    "size": {"spec": {"capacity": {"storage": "9Gi"}}},
    "reclaim-policy": {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
    "claim-of-a-bound-volume": {"spec": {"claimRef": {"namespace": "evil", "name": "theirs"}}},
    "claim-taken-away": {"spec": {"claimRef": None}},
}


@pytest.fixture
def storage(cp: ControlPlane, account: Client, namespace: str) -> Iterator[tuple[str, str, str]]:
    """The paths of a volume that is given to a claim, of a free one, and of a claim."""
    taken, free = f"{PV}/{namespace}-taken", f"{PV}/{namespace}-free"
    for path, claim in ((taken, "data"), (free, "")):
        name = path.removeprefix(f"{PV}/")
        for_claim = f"{namespace}/{claim}" if claim else ""
        body = volume_json(name, for_claim=for_claim, claim_uid="1" if claim else "")
        cp.client.create(PV, {**body, "metadata": {"name": name, "labels": {"a": "b"}}})
    claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    # No volume is of its class, so the PV controller leaves it as it is.
    cp.client.create(claims, {**claim_json(class_name="other"), "metadata": {"name": "data"}})
    labels = {"metadata": {"labels": {"a": "b"}}}
    wait_until(
        lambda: "403" in said(lambda: account.patch(f"{claims}/data?dryRun=All", labels)),
        what="the policy to be in force",
    )
    yield taken, free, f"{claims}/data"
    for path in (taken, free):
        cp.client.patch(path, {"metadata": {"finalizers": None}})
        cp.client.delete_if_there(path)


@pytest.mark.parametrize("patch", STOLEN.values(), ids=STOLEN)
def test_the_account_changes_nothing_of_a_volume_that_is_given(
    account: Client, client: Client, storage: tuple[str, str, str], patch: Json
) -> None:
    taken = storage[0]
    client.wait_for(taken, lambda seen: "finalizers" in seen["metadata"], what="its protection")
    before = client.get(taken)["spec"]

    answer = said(lambda: account.patch(taken, patch))

    assert answer.startswith("403 ")
    assert "gpu-scheduler may " in answer
    assert client.get(taken)["spec"] == before


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"metadata": {"labels": {"a": "b"}}}, id="label"),
        pytest.param({"metadata": {"annotations": {BOUND: "yes"}}}, id="annotation"),
        pytest.param({"spec": {"volumeName": "theirs"}}, id="volume"),
        pytest.param({"metadata": {"finalizers": ["example.com/stuck"]}}, id="finalizers"),
    ],
)
def test_the_account_changes_of_a_claim_only_the_selected_node(
    account: Client, storage: tuple[str, str, str], patch: Json
) -> None:
    answer = said(lambda: account.patch(storage[2], patch))

    assert re.search(r"403 .*gpu-scheduler may change only", answer)


def test_the_account_binds_a_free_volume_and_selects_a_node(
    account: Client, client: Client, storage: tuple[str, str, str]
) -> None:
    _, free, claim = storage
    meta = client.get(claim)["metadata"]
    reference = {key: meta[key] for key in ("namespace", "name", "uid")}

    given = {"metadata": {"annotations": {OURS: "yes"}}, "spec": {"claimRef": reference}}
    assert account.patch(free, given)["spec"]["claimRef"]["uid"] == meta["uid"]
    chosen = {"metadata": {"annotations": {SELECTED: "node-1"}}}
    assert account.patch(claim, chosen)["metadata"]["annotations"][SELECTED] == "node-1"
    assert said(lambda: account.delete(free)).startswith("403 ")
    assert said(lambda: account.delete(claim)).startswith("403 ")
