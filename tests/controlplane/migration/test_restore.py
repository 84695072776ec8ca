"""Rescue and restore on the real API server, with the real controllers that make pods again."""

from __future__ import annotations

import time
from typing import Any

import pytest

from scheduler.model import well_known
from tests.controlplane.migration_scene import (
    AUTO,
    BIG,
    SMALL,
    degraded,
    deployment,
    figures,
    free_the_slice,
    hears,
    near,
    no_ticket,
    node,
    of,
    open_tickets,
    restored,
    said,
    uids,
    wants,
)
from tests.controlplane.workloads import Json, Watcher, annotation, controlled, job, node_of, tier
from tests.patience import SLOW_MACHINE
from tools.controlplane import wait_until

IGNORE = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}],
}


@pytest.mark.smoke
@pytest.mark.contract("S3-17", "S3-23", "S3-B7", "S3-B12", "S3-B17", "S3-B21")
def test_freed_slice_returns_to_the_degraded_deployment_pod(here: Watcher) -> None:
    """In under five seconds, of which one is the pod's grace and one the slice's steadiness."""
    before = degraded(here, deployment(here, "web", terminationGracePeriodSeconds=1), 2)

    freed = free_the_slice(here)
    found = restored(here, "web")
    took_s = time.monotonic() - freed

    figures.info("restore of a Deployment's pod: %.2f s", took_s)
    assert took_s < 5.0 * SLOW_MACHINE
    assert annotation(found, well_known.FALLBACK) is None
    assert (annotation(found, well_known.MIGRATION) or "").startswith("restore-1-")
    no_ticket(here)
    (gone,) = [i for i in before if i["metadata"]["uid"] not in uids(of(here.pods(), "web"))]
    name = gone["metadata"]["name"]
    hears(here, name, "Restoring", f"2g.20gb is free on node {node(here)}")
    hears(here, found["metadata"]["name"], "Restored", "2g.20gb in place of 1g.10gb")
    # The other one stays as it is: there is nothing better for it.
    assert len(of(here.pods(), "web")) == 2


@pytest.mark.contract("S3-B11", "S3-B2")
def test_bare_pod_is_not_migrated_and_gets_an_event(here: Watcher) -> None:
    here.create(wants(here, "bare"))
    here.wait_bound(2)
    (before,) = [item for item in here.pods() if item["metadata"]["name"] == "bare"]
    assert tier(before) == {SMALL: "1"}

    free_the_slice(here)

    hears(here, "bare", "MigrationBlocked", "has no controller")
    assert uids(here.pods()) == uids([before])
    assert open_tickets(here) == []


def test_stateful_set_pod_regains_its_slice_under_the_same_name(here: Watcher) -> None:
    body = controlled(
        "StatefulSet",
        "db",
        replicas=2,
        limits={BIG: "1"},
        terminationGracePeriodSeconds=1,
        **near(here),
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


def a_job(here: Watcher, name: str, policy: Json | None, **more: Any) -> Json:
    body = job(name, completions=1, limits={BIG: "1"}, **near(here), **more)
    body["spec"]["backoffLimit"] = 0
    if policy is not None:
        body["spec"]["podFailurePolicy"] = policy
    return body


def test_job_ignoring_disruptions_regains_its_slice_without_failing(
    here: Watcher,
) -> None:
    """With no failure left to spend."""
    degraded(
        here, a_job(here, "train", IGNORE, annotations=AUTO, terminationGracePeriodSeconds=1), 1
    )

    freed = free_the_slice(here)
    restored(here, "train")

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
def test_job_counting_evictions_as_failures_is_not_migrated(
    here: Watcher, policy: Json | None, annotations: dict[str, str], text: str
) -> None:
    (before,) = degraded(here, a_job(here, "batch", policy, annotations=annotations), 1)

    free_the_slice(here)

    hears(here, before["metadata"]["name"], "MigrationBlocked", text)
    assert uids(of(here.pods(), "batch")) == uids([before])


@pytest.mark.contract("S3-B11")
def test_disruption_budget_of_zero_prevents_migration(here: Watcher) -> None:
    budget = {
        "metadata": {"name": "all"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}},
    }
    path = f"/apis/policy/v1/namespaces/{here.namespace}/poddisruptionbudgets"
    here.client.create(path, budget)
    before = degraded(here, deployment(here, "web"), 2)
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
            for note in said(here, item["metadata"]["name"], "MigrationBlocked")
        ),
        what="a pod to be told about the budget",
    )
    assert uids(here.pods()) == uids(before)
    assert open_tickets(here) == []


def test_single_replica_migrates_only_with_permission(here: Watcher) -> None:
    (before,) = degraded(here, deployment(here, "one", 1), 1)
    free_the_slice(here)
    hears(here, before["metadata"]["name"], "MigrationBlocked", "it is the only replica")

    body = {"spec": {"template": {"metadata": {"annotations": AUTO}}}}
    here.client.patch(here.path("Deployment", "one"), body)

    # The edit alone makes a new pod, and the slice is free for it.
    restored(here, "one")


# --- rescue ------------------------------------------------------------------------------------


@pytest.mark.contract("S3-14", "S3-23", "S3-B1", "S3-B9")
def test_pending_pod_is_rescued_to_a_freed_tier(here: Watcher) -> None:
    fillers = [wants(here, f"filler{n}", SMALL) for n in range(2)]
    for body in fillers:
        here.create(body)
    here.wait_bound(3)
    here.create(deployment(here, "late", 1))
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
    assert annotation(found, well_known.FALLBACK) == "2g.20gb->1g.10gb"
    assert (annotation(found, well_known.MIGRATION) or "").startswith("rescue-1-")
    hears(here, waiting["metadata"]["name"], "Rescuing", f"1g.10gb is free on node {node(here)}")
    no_ticket(here)
