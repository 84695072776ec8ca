"""A release that was taken away and comes again on the same API server: its pods are placed.

The API server remembers the former election's lease, which is why this one is of its own
(docs/decisions/0022-terms-only-grow.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.built_programs import fail_if_missing
from tests.controlplane.conftest import HERE, MakeNode
from tests.controlplane.workloads import Watcher, pod
from tools.controlplane import ApiError, ControlPlane, wait_until
from tools.product import ACCOUNT, ROOT, Product

POLICIES = ("fencing-policy.yaml", "preemption-policy.yaml")
NAMESPACE = "gpu-scheduler-system"
Remove = Callable[[ControlPlane, str], None]
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/gpu-scheduler"


@pytest.fixture(scope="module")
def cp(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """With nothing of ours installed."""
    fail_if_missing(request, HERE)
    with ControlPlane.start(tmp_path_factory.mktemp("fence")) as plane:
        yield plane


def lease_goes_last(plane: ControlPlane, kept: str) -> None:
    """ArgoCD leaves it alone; a person takes it away."""
    take_policies(plane, kept)
    plane.kubectl("delete", "lease", "gpu-scheduler", "-n", NAMESPACE)


def lease_goes_first(plane: ControlPlane, kept: str) -> None:
    plane.kubectl("delete", "lease", "gpu-scheduler", "-n", NAMESPACE)
    take_policies(plane, kept)


def take_policies(plane: ControlPlane, kept: str) -> None:
    """Until the API server has noticed: they keep the scheduler from deleting this pod."""
    for policy in POLICIES:
        plane.kubectl("delete", "-f", str(ROOT / "cluster" / policy))
    account = plane.client_for(ACCOUNT)

    def is_free() -> bool:
        try:
            account.delete(f"{kept}?dryRun=All")
        except ApiError:
            return False
        return True

    wait_until(is_free, what="the API server to forget the policies")


def term(plane: ControlPlane) -> int:
    return int(plane.client.get(LEASE)["spec"]["leaseTransitions"])


def stands(plane: ControlPlane) -> bool:
    """Whether the fence refuses a Binding without a term; the pod need not be there for that."""
    body = {"metadata": {"name": "absent"}, "target": {"kind": "Node", "name": "nowhere"}}
    try:
        plane.client_for(ACCOUNT).create("/api/v1/namespaces/default/pods/absent/binding", body)
    except ApiError as error:
        return "in term none" in str(error)
    return False


@pytest.mark.parametrize("remove", [lease_goes_last, lease_goes_first])
def test_reinstalled_release_places_pods(
    cp: ControlPlane, namespace: str, kwok_node: MakeNode, tmp_path: Path, remove: Remove
) -> None:
    """Two leaders of the former release had terms; those of the next are newer."""
    kwok_node("again")
    here = Watcher(cp, namespace)
    with Product(cp, tmp_path / "former") as former:
        wait_until(lambda: stands(cp), what="the fence to stand")
        former.stop("scheduler")
        former.start_scheduler()
        here.create(pod("before"))
        here.wait_bound(1)
        of_former = term(cp)
    remove(cp, here.path("Pod", "before"))
    with Product(cp, tmp_path / "next"):
        wait_until(lambda: stands(cp), what="the fence to stand again")
        here.create(pod("after"))
        here.wait_bound(2)

        assert term(cp) > of_former
