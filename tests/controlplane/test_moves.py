"""Rescue and restore on the real API server, with the real controllers that make pods again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpuctl.product import NAMESPACE, Product
from scheduler.model import migrule, names
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import (
    Json,
    Watcher,
    annotation,
    controlled,
    job,
    node_of,
    pod,
    tier,
)
from tools.controlplane import ControlPlane, wait_until

BIG = "nvidia.com/mig-2g.20gb"
SMALL = "nvidia.com/mig-1g.10gb"
AUTO = {names.RESTORE: "auto"}
TICKETS = migrule.path(NAMESPACE)
QUICK = {"restore": {"minAgeS": 0, "cooldownS": 1, "rescueAfterS": 1}}
IGNORE = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}],
}
#: Shown by `pytest --log-cli-level=info`.
figures = logging.getLogger("figures")


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """Scheduler and webhook with short times."""
    with Product(cp, tmp_path_factory.mktemp("product"), config=QUICK) as running:
        yield running


@pytest.fixture
def here(product: Product, cp: ControlPlane, namespace: str, kwok_node: MakeNode) -> Watcher:
    """A namespace and a node with one big slice, which a bare pod holds, and two small ones."""
    kwok_node("cut", mig={"2g.20gb": 1, "1g.10gb": 2}, labels={"here": namespace})
    watcher = Watcher(cp, namespace)
    watcher.create(wants("holder"))
    watcher.wait_bound(1)
    return watcher


def wants(name: str, **more: Any) -> Json:
    return pod(name, limits={BIG: "1"}, **more)


def deployment(name: str, replicas: int = 2, **more: Any) -> Json:
    return controlled("Deployment", name, replicas=replicas, limits={BIG: "1"}, **more)


def of(items: list[Json], owner: str) -> list[Json]:
    """The pods of an owner that are not on their way out."""
    return [
        item
        for item in items
        if item["metadata"]["name"].startswith(owner + "-")
        and "deletionTimestamp" not in item["metadata"]
    ]


def degraded(here: Watcher, body: Json, count: int) -> list[Json]:
    """Create a workload whose pods all get the small slice."""
    here.create(body)
    name = body["metadata"]["name"]
    return of(
        here.wait(
            f"{count} degraded pods",
            lambda items: (
                sum(tier(i) == {SMALL: "1"} and bool(node_of(i)) for i in of(items, name)) == count
            ),
        ),
        name,
    )


def free_the_slice(here: Watcher) -> float:
    here.client.delete(here.path("Pod", "holder"), {"gracePeriodSeconds": 0})
    return time.monotonic()


def restored(here: Watcher, name: str, timeout_s: float = 40.0) -> Json:
    """The pod of a workload that has the big slice, once it is bound and its ticket is gone."""

    def check(items: list[Json]) -> bool:
        return any(tier(item) == {BIG: "1"} and node_of(item) for item in of(items, name))

    items = here.wait(f"{name} with the big slice", check, timeout_s)
    (found,) = [item for item in of(items, name) if tier(item) == {BIG: "1"} and node_of(item)]
    return found


def no_ticket(here: Watcher) -> None:
    here.client.wait_for(TICKETS, lambda seen: not seen["items"], what="every ticket to be gone")


def said(here: Watcher, name: str, reason: str) -> list[str]:
    """What events with this reason say about an object."""
    return [event["note"] for event in here.events(name) if event["reason"] == reason]


def hears(here: Watcher, name: str, reason: str, text: str) -> None:
    """Wait for an event."""
    wait_until(
        lambda: any(text in note for note in said(here, name, reason)),
        what=f"event {reason} on {name} with {text!r}",
        last=lambda: here.events(name),
    )


def uids(items: list[Json]) -> set[str]:
    return {item["metadata"]["uid"] for item in items}


@pytest.mark.contract("S3-23", "S3-B7", "S3-B12", "S3-B21")
def test_a_freed_slice_goes_back_to_the_degraded_pod_of_a_deployment(here: Watcher) -> None:
    """In under five seconds, of which one is the pod's grace and one the slice's steadiness."""
    before = degraded(here, deployment("web", terminationGracePeriodSeconds=1), 2)

    freed = free_the_slice(here)
    found = restored(here, "web", timeout_s=10.0)
    took_s = time.monotonic() - freed

    figures.info("restore of a Deployment's pod: %.2f s", took_s)
    assert took_s < 5.0
    assert annotation(found, names.FALLBACK) is None
    assert (annotation(found, names.MOVE) or "").startswith("restore-1-")
    no_ticket(here)
    (gone,) = [i for i in before if i["metadata"]["uid"] not in uids(here.pods())]
    name = gone["metadata"]["name"]
    hears(here, name, "Restoring", "2g.20gb is free on node cut")
    hears(here, found["metadata"]["name"], "Restored", "2g.20gb in place of 1g.10gb")
    # The other one stays as it is: there is nothing better for it.
    assert len(of(here.pods(), "web")) == 2


@pytest.mark.contract("S3-B11", "S3-B2")
def test_a_bare_pod_stays_untouched_and_is_told_why(here: Watcher) -> None:
    here.create(wants("bare"))
    here.wait_bound(2)
    (before,) = [item for item in here.pods() if item["metadata"]["name"] == "bare"]
    assert tier(before) == {SMALL: "1"}

    free_the_slice(here)

    hears(here, "bare", "NotMoved", "has no controller, so nobody would create it again")
    assert uids(here.pods()) == uids([before])
    assert here.client.get(TICKETS)["items"] == []


def test_an_ordered_set_gets_the_slice_back_under_the_same_name(here: Watcher) -> None:
    body = controlled(
        "StatefulSet", "db", replicas=2, limits={BIG: "1"}, terminationGracePeriodSeconds=1
    )
    body["spec"]["podManagementPolicy"] = "OrderedReady"
    before = degraded(here, body, 2)

    freed = free_the_slice(here)
    found = restored(here, "db")

    figures.info("restore of a StatefulSet's pod: %.2f s", time.monotonic() - freed)
    assert {item["metadata"]["name"] for item in here.pods()} == {"db-0", "db-1"}
    assert len(uids(here.pods()) & uids(before)) == 1
    assert found["metadata"]["uid"] not in uids(before)
    no_ticket(here)


def a_job(name: str, policy: Json | None, **more: Any) -> Json:
    body = job(name, completions=1, limits={BIG: "1"}, **more)
    body["spec"]["backoffLimit"] = 0
    if policy is not None:
        body["spec"]["podFailurePolicy"] = policy
    return body


def test_a_job_that_ignores_disruptions_gets_its_slice_back_and_does_not_fail(
    here: Watcher,
) -> None:
    """With no failure left to spend."""
    degraded(here, a_job("train", IGNORE, annotations=AUTO, terminationGracePeriodSeconds=1), 1)

    freed = free_the_slice(here)
    restored(here, "train", timeout_s=60.0)

    figures.info("restore of a Job's pod: %.2f s", time.monotonic() - freed)
    status = here.client.get(here.path("Job", "train"))["status"]
    assert (status.get("active"), status.get("failed", 0)) == (1, 0)
    no_ticket(here)


@pytest.mark.contract("S3-B11")
@pytest.mark.parametrize(
    ("policy", "annotations", "text"),
    [
        pytest.param(None, AUTO, "would count it as a failure", id="no-policy"),
        pytest.param(IGNORE, {}, "only with the annotation", id="not-asked-for"),
    ],
)
def test_a_job_that_would_lose_by_it_is_left_alone(
    here: Watcher, policy: Json | None, annotations: dict[str, str], text: str
) -> None:
    (before,) = degraded(here, a_job("batch", policy, annotations=annotations), 1)

    free_the_slice(here)

    hears(here, before["metadata"]["name"], "NotMoved", text)
    assert uids(of(here.pods(), "batch")) == uids([before])


@pytest.mark.contract("S3-B11", "S3-B20")
def test_a_budget_that_allows_no_disruption_keeps_the_pods(here: Watcher) -> None:
    budget = {
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    path = f"/apis/policy/v1/namespaces/{here.namespace}/poddisruptionbudgets"
    here.client.create(path, budget)
    before = degraded(here, deployment("web"), 2)
    here.client.wait_for(
        f"{path}/all",
        lambda seen: seen["status"].get("currentHealthy") == 2,
        what="the budget to know its pods",
    )

    free_the_slice(here)

    wait_until(
        lambda: any(
            "PodDisruptionBudget allows no disruption" in note
            for item in before
            for note in said(here, item["metadata"]["name"], "NotMoved")
        ),
        what="a pod to be told about the budget",
    )
    assert uids(here.pods()) == uids(before)
    assert here.client.get(TICKETS)["items"] == []


def test_the_only_replica_is_moved_only_if_its_author_allows_it(here: Watcher) -> None:
    (before,) = degraded(here, deployment("one", 1), 1)
    free_the_slice(here)
    hears(here, before["metadata"]["name"], "NotMoved", "it is the only replica")

    body = {"spec": {"template": {"metadata": {"annotations": AUTO}}}}
    here.client.patch(here.path("Deployment", "one"), body)

    # The edit alone makes a new pod, and the slice is free for it.
    restored(here, "one")


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
    """Wait until one of the pods was evicted for a ticket that is open; returns the ticket."""
    wait_until(lambda: len(here.pods()) < len(before), what="a pod to be evicted")
    (ticket,) = here.client.get(TICKETS)["items"]
    assert ticket["spec"]["pod"]["uid"] in uids(before)
    return dict(ticket)


def test_a_move_ends_when_the_owner_was_scaled_down_meanwhile(
    here: Watcher, shut: Callable[[bool], None]
) -> None:
    """As an autoscaler may do at any time."""
    before = degraded(here, deployment("web"), 2)
    shut(True)
    free_the_slice(here)
    evicted(here, before)

    here.client.patch(here.path("Deployment", "web"), {"spec": {"replicas": 1}})

    hears(here, "web", "MoveEnded", "scaled down to 1")
    no_ticket(here)
    assert len(of(here.pods(), "web")) == 1


@pytest.mark.contract("S3-B13")
def test_a_move_ends_when_the_template_was_edited_meanwhile(
    here: Watcher, shut: Callable[[bool], None]
) -> None:
    """The pods of the new template come as it says, and nothing of the ticket is put on them."""
    before = degraded(here, deployment("web"), 2)
    shut(True)
    free_the_slice(here)
    evicted(here, before)

    container = {"name": "app", "env": [{"name": "NEW", "value": "1"}]}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    path = here.path("Deployment", "web")
    strategic = "application/strategic-merge-patch+json"
    here.client.patch(path, template, content_type=strategic)

    hears(here, "web", "MoveEnded", "the template of Deployment web changed")
    no_ticket(here)
    shut(False)
    items = here.wait(
        "pods of the new template",
        lambda found: (
            len([i for i in of(found, "web") if "env" in i["spec"]["containers"][0]]) == 2
        ),
    )
    assert {annotation(item, names.MOVE) for item in of(items, "web")} == {None}


@pytest.mark.contract("S3-B6")
def test_a_newcomer_does_not_steal_the_slice_that_a_move_waits_for(
    here: Watcher, cp: ControlPlane, shut: Callable[[bool], None]
) -> None:
    other = f"{here.namespace}-b"
    cp.client.create("/api/v1/namespaces", {"metadata": {"name": other}})
    cp.wait_for_service_account(other)
    thief = Watcher(cp, other)
    try:
        before = degraded(here, deployment("web"), 2)
        shut(True)
        free_the_slice(here)
        ticket = evicted(here, before)
        assert ticket["spec"]["change"] == "1g.10gb->2g.20gb"

        thief.create(wants("thief", annotations={names.MIG_FALLBACK: "off"}))
        thief.wait_explained(
            "thief", "Insufficient nvidia.com/mig-2g.20gb (need 1; best node has 0"
        )
        assert tier(thief.client.create(f"{thief.pods_path}?dryRun=All", wants("late"))) == {
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
    """Nobody can evict, until the function is called."""
    binding = {
        "metadata": {"name": "no-evictions"},
        "spec": {"policyName": "no-evictions", "validationActions": ["Deny"]},
    }
    cp.client.create(POLICIES, NO_EVICTIONS)
    cp.client.create(f"{POLICIES[:-3]}ybindings", binding)

    def lift() -> None:
        cp.client.delete(f"{POLICIES[:-3]}ybindings/no-evictions")

    yield lift
    cp.client.delete(f"{POLICIES}/no-evictions")


@pytest.mark.contract("S3-B12")
def test_who_is_killed_between_ticket_and_eviction_goes_on_where_it_was(
    here: Watcher, product: Product, no_evictions: Callable[[], None]
) -> None:
    before = degraded(here, deployment("web"), 2)
    probe = {"metadata": {"name": before[0]["metadata"]["name"], "namespace": here.namespace}}
    path = f"{here.pods_path}/{probe['metadata']['name']}/eviction?dryRun=All"

    def is_refused() -> bool:
        try:
            here.client.create(path, {"apiVersion": "policy/v1", "kind": "Eviction", **probe})
        except Exception as error:  # noqa: BLE001 - whatever the API server says
            return "not now" in str(error)
        return False

    wait_until(is_refused, what="evictions to be refused")
    free_the_slice(here)
    here.client.wait_for(TICKETS, lambda seen: bool(seen["items"]), what="a ticket")
    (ticket,) = here.client.get(TICKETS)["items"]

    product.kill("scheduler")
    no_evictions()
    assert uids(here.pods()) == uids(before)
    product.start_scheduler()

    found = restored(here, "web")
    assert annotation(found, names.MOVE) == ticket["metadata"]["name"]
    no_ticket(here)
    assert len(of(here.pods(), "web")) == 2


# --- rescue ------------------------------------------------------------------------------------


@pytest.mark.contract("S3-23", "S3-B1", "S3-B9")
def test_a_pod_that_stays_pending_is_given_the_tier_that_became_free(here: Watcher) -> None:
    fillers = [pod(f"filler{n}", limits={SMALL: "1"}) for n in range(2)]
    for body in fillers:
        here.create(body)
    here.wait_bound(3)
    here.create(deployment("late", 1))
    items = here.wait("a pending pod", lambda found: len(of(found, "late")) == 1)
    (waiting,) = of(items, "late")
    here.wait_explained(waiting["metadata"]["name"], "Insufficient nvidia.com/mig-2g.20gb")

    here.client.delete(here.path("Pod", "filler0"), {"gracePeriodSeconds": 0})
    since = time.monotonic()

    items = here.wait(
        "the pod to run on the small slice",
        lambda found: any(node_of(i) and tier(i) == {SMALL: "1"} for i in of(found, "late")),
    )
    figures.info("rescue of a Deployment's pod: %.2f s", time.monotonic() - since)
    (found,) = of(items, "late")
    assert annotation(found, names.FALLBACK) == "2g.20gb->1g.10gb"
    assert (annotation(found, names.MOVE) or "").startswith("rescue-1-")
    hears(here, waiting["metadata"]["name"], "Rescuing", "1g.10gb is free on node cut")
    no_ticket(here)
