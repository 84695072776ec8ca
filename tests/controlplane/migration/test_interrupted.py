"""Events during a migration: of its owner, of the scheduler, and of its slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from scheduler.model import well_known
from tests.controlplane.migration_scene import (
    SMALL,
    degraded,
    deployment,
    free_the_slice,
    hears,
    no_ticket,
    of,
    open_tickets,
    restored,
    uids,
    wants,
)
from tests.controlplane.workloads import Json, Watcher, annotation, away, node_of, tier
from tools.controlplane import ApiError, ControlPlane, wait_until
from tools.product import Product

# --- between eviction and replacement ----------------------------------------------------------


@pytest.fixture
def shut(here: Watcher) -> Callable[[bool], None]:
    """A function that lets no new pod into the namespace, or lets them in again."""
    path = f"/api/v1/namespaces/{here.namespace}/resourcequotas"

    def turn(closed: bool) -> None:
        if not closed:
            here.client.delete(f"{path}/shut")
            return
        here.client.create(path, {"metadata": {"name": "shut"}, "spec": {"hard": {"pods": "0"}}})
        here.client.wait_for(
            f"{path}/shut",
            lambda seen: "hard" in seen.get("status", {}),
            what="the quota to hold",
        )

    return turn


def evicted(here: Watcher, before: list[Json]) -> Json:
    """Wait until one of the pods was evicted for an open migration; returns the migration."""
    wait_until(lambda: len(here.pods()) < len(before), what="a pod to be evicted")
    (migration,) = open_tickets(here)
    assert migration["spec"]["pod"]["uid"] in uids(before)
    return dict(migration)


def scale_down(here: Watcher) -> None:
    here.client.patch(here.path("Deployment", "web"), {"spec": {"replicas": 1}})


def let_an_autoscaler(here: Watcher) -> None:
    """It needs no metrics for what its own limits demand."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 1}
    path = f"/apis/autoscaling/v2/namespaces/{here.namespace}/horizontalpodautoscalers"
    here.client.create(path, {"metadata": {"name": "web"}, "spec": spec})


@pytest.mark.parametrize("scale", [scale_down, let_an_autoscaler])
def test_migration_ends_when_the_owner_is_scaled_down(
    here: Watcher, shut: Callable[[bool], None], scale: Callable[[Watcher], None]
) -> None:
    before = degraded(here, deployment(here, "web"), 2)
    shut(True)
    free_the_slice(here)
    evicted(here, before)

    scale(here)

    hears(here, "web", "MigrationFailed", "scaled down to 1")
    no_ticket(here)
    assert len(of(here.pods(), "web")) == 1


@pytest.mark.contract("S3-B13")
def test_migration_ends_when_the_template_is_edited(
    here: Watcher, shut: Callable[[bool], None]
) -> None:
    """The pods of the new template come as it says, and nothing of the ticket is put on them."""
    before = degraded(here, deployment(here, "web"), 2)
    shut(True)
    free_the_slice(here)
    evicted(here, before)

    container = {"name": "app", "env": [{"name": "NEW", "value": "1"}]}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    path = here.path("Deployment", "web")
    strategic = "application/strategic-merge-patch+json"
    here.client.patch(path, template, content_type=strategic)

    hears(here, "web", "MigrationFailed", "the template of Deployment web changed")
    no_ticket(here)
    shut(False)
    items = here.wait(
        "pods of the new template",
        lambda found: (
            len([i for i in of(found, "web") if "env" in i["spec"]["containers"][0]]) == 2
        ),
    )
    assert {annotation(item, well_known.MIGRATION) for item in of(items, "web")} == {None}


@pytest.mark.contract("S3-B6")
def test_new_pod_does_not_take_the_slice_of_a_migration(
    here: Watcher, cp: ControlPlane, shut: Callable[[bool], None]
) -> None:
    other = f"{here.namespace}-b"
    cp.client.create("/api/v1/namespaces", {"metadata": {"name": other}})
    cp.wait_for_service_account(other)
    thief = Watcher(cp, other)
    try:
        before = degraded(here, deployment(here, "web"), 2)
        shut(True)
        free_the_slice(here)
        migration = evicted(here, before)
        assert migration["spec"]["change"] == "1g.10gb->2g.20gb"

        thief.create(wants(thief, "thief", annotations={well_known.MIG_FALLBACK: "off"}))
        thief.wait_explained(
            "thief", "Insufficient nvidia.com/mig-2g.20gb (need 1; best node has 0"
        )
        assert tier(thief.client.create(f"{thief.pods_path}?dryRun=All", wants(thief, "late"))) == {
            SMALL: "1"
        }
        shut(False)

        restored(here, "web")
        no_ticket(here)
        (item,) = thief.pods()
        assert node_of(item) == ""
    finally:
        cp.client.delete(f"/api/v1/namespaces/{other}")
        cp.client.delete(thief.pods_path, {"gracePeriodSeconds": 0})


# --- between ticket and eviction ---------------------------------------------------------------

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
NO_EVICTIONS = {
    "metadata": {"name": "no-evictions"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods/eviction"],
                }
            ]
        },
        "validations": [{"expression": "false", "message": "not now"}],
    },
}


@pytest.fixture
def no_evictions(cp: ControlPlane) -> Iterator[Callable[[], None]]:
    """Evictions are refused until the function is called."""
    binding = {
        "metadata": {"name": "no-evictions"},
        "spec": {"policyName": "no-evictions", "validationActions": ["Deny"]},
    }
    bindings = f"{POLICIES[:-3]}ybindings"

    def lift() -> None:
        cp.client.delete_if_there(f"{bindings}/no-evictions")

    try:
        cp.client.create(POLICIES, NO_EVICTIONS)
        cp.client.create(bindings, binding)
        yield lift
    finally:
        lift()
        cp.client.delete(f"{POLICIES}/no-evictions")


@pytest.mark.contract("S3-B12")
def test_migration_resumes_after_a_kill_between_ticket_and_eviction(
    here: Watcher, product: Product, no_evictions: Callable[[], None]
) -> None:
    before = degraded(here, deployment(here, "web"), 2)
    probe = {"metadata": {"name": before[0]["metadata"]["name"], "namespace": here.namespace}}
    path = f"{here.pods_path}/{probe['metadata']['name']}/eviction?dryRun=All"

    def is_refused() -> bool:
        try:
            here.client.create(path, {"apiVersion": "policy/v1", "kind": "Eviction", **probe})
        except ApiError as error:
            return "not now" in str(error)
        return False

    wait_until(is_refused, what="evictions to be refused")
    free_the_slice(here)
    wait_until(lambda: bool(open_tickets(here)), what="a ticket")
    (migration,) = open_tickets(here)

    with away(product, "scheduler", crash=True):
        no_evictions()
        assert uids(here.pods()) == uids(before)

    found = restored(here, "web")
    assert annotation(found, well_known.MIGRATION) == migration["metadata"]["name"]
    no_ticket(here)
    assert len(of(here.pods(), "web")) == 2
