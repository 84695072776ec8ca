"""A team takes back what another one borrows (docs/teams.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from scheduler.model import well_known
from tests.controlplane.conftest import remove_namespace
from tests.controlplane.preemption_scene import GPU, disruption, held, let_go, wait_nominated
from tests.controlplane.workloads import Json, Watcher, controlled, node_of, pod, why
from tools.controlplane import ControlPlane
from tools.product import NAMESPACE, ROOT, Product

LENDER: Final = "reclaim-lender"
BORROWER: Final = "reclaim-borrower"
#: In whole GPUs of seven slices: two of the lender, one of the borrower. Nothing is too young.
TEAMS: Final = {
    "minRuntimeS": 0,
    "teams": {LENDER: {"guarantee": {"slices": 14}}, BORROWER: {"guarantee": {"slices": 7}}},
}
CONFIG: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The product with the quotas of two teams."""
    rights = [f"--filename={ROOT / 'cluster' / one}" for one in ("rbac.yaml", "rbac-teams.yaml")]
    cp.kubectl("apply", *rights)
    metadata = {"name": "gpu-scheduler-teams"}
    cp.client.create(CONFIG, {"metadata": metadata, "data": {"teams.yaml": json.dumps(TEAMS)}})
    try:
        own = {"teams": {"source": "configMap"}}
        with Product(cp, tmp_path_factory.mktemp("teams"), config=own) as running:
            yield running
    finally:
        cp.client.delete(f"{CONFIG}/gpu-scheduler-teams")
        cp.kubectl("delete", rights[1])


@pytest.fixture
def lender(cp: ControlPlane, product: Product) -> Iterator[Watcher]:
    """The namespace of the team that lends."""
    assert product.is_running("scheduler")
    yield from of_team(cp, LENDER)


@pytest.fixture
def borrower(cp: ControlPlane) -> Iterator[Watcher]:
    """The namespace of the team that borrows."""
    yield from of_team(cp, BORROWER)


def of_team(cp: ControlPlane, name: str) -> Iterator[Watcher]:
    """A namespace whose name is that of a team."""
    cp.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
    cp.wait_for_service_account(name)
    yield Watcher(cp, name)
    remove_namespace(cp, name)


def wants(kind: str, name: str, replicas: int) -> Json:
    """Pods with one GPU each that end when the test says so."""
    body = controlled(kind, name, replicas=replicas, limits={GPU: "1"})
    held(body["spec"]["template"])
    return body


def group(name: str, size: int) -> Json:
    """Pods that start together."""
    body = wants("StatefulSet", name, size)
    meta = body["spec"]["template"]["metadata"]
    meta["labels"][well_known.GROUP] = name
    meta["annotations"][well_known.GROUP_MIN] = str(size)
    return body


def going(here: Watcher) -> set[str]:
    """The pods that are being deleted."""
    return {
        str(item["metadata"]["name"])
        for item in here.pods()
        if "deletionTimestamp" in item["metadata"]
    }


def bound(here: Watcher) -> set[str]:
    """The uids of the pods with a node."""
    return {str(item["metadata"]["uid"]) for item in here.pods() if node_of(item)}


def wait_told_why(here: Watcher, count: int) -> None:
    """Wait until so many pods are told why they have no node."""
    here.wait(
        f"{count} pods that wait", lambda items: sum(bool(why(item)) for item in items) == count
    )


@pytest.mark.contract("S4-25")
def test_a_team_takes_back_its_guarantee_and_no_more(
    lender: Watcher, borrower: Watcher, still: Callable[[str, int], None], product: Product
) -> None:
    """Two GPUs of the guarantee are lent to a group of two; two pods would not come back."""
    still("reclaim-node", 4)
    for name in ("lone-0", "lone-1"):
        borrower.create(held(pod(name, limits={GPU: "1"})))
    borrower.wait_bound(2)
    borrower.create(group("train", 2))
    borrower.wait_bound(4)

    lender.create(wants("Deployment", "own", 3))
    borrower.wait(
        "the group to go",
        lambda items: sum("deletionTimestamp" in one["metadata"] for one in items) == 2,
    )
    assert going(borrower) == {"train-0", "train-1"}
    for name in ("train-0", "train-1"):
        said = disruption(borrower, name)
        assert (said["status"], said["reason"]) == ("True", "PreemptionByScheduler")
    wait_told_why(lender, 3)
    waiting = [one for one in lender.pods() if "reclaim: found a potential placement" in why(one)]
    for one in waiting:
        wait_nominated(lender, one["metadata"]["name"], "reclaim-node")

    for name in ("train-0", "train-1"):
        let_go(borrower, name)
    lender.wait_bound(2)

    # The room is gone; what waits and what is new is decided beside it.
    wait_told_why(borrower, 2)
    lender.create(held(pod("more", limits={GPU: "1"})))
    wait_told_why(lender, 2)
    before = bound(lender) | bound(borrower)
    lender.create(held(pod("probe", limits={GPU: "1"})))
    wait_told_why(lender, 3)

    assert going(lender) | going(borrower) == set()
    assert bound(lender) | bound(borrower) == before
    assert len(before) == 4
    assert product.log("scheduler").count("preempting pods") == 1
