"""The results of migrations survive a scheduler restart, as far as the API has them."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.migration_scene import (
    AUTO,
    BIG,
    QUICK,
    SMALL,
    TICKETS,
    cut_node,
    degraded,
    deployment,
    free_the_slice,
    hears,
    near,
    no_ticket,
    node,
    of,
    restored,
    uids,
)
from tests.controlplane.workloads import Json, Watcher, annotation, away, job, node_of, pod, tier
from tools.controlplane import ApiError, ControlPlane
from tools.product import NAMESPACE, Product


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    """One migration per workload and hour."""
    return {"restore": {**QUICK["restore"], "migrationsPerHour": 1}}


@pytest.fixture
def here(product: Product, namespace: str, kwok_node: MakeNode) -> Watcher:
    """Another cut node beside the first one, of which both big slices are held."""
    assert product.is_running("scheduler")
    watcher = cut_node(product, namespace, kwok_node)
    kwok_node(f"{node(watcher)}-2", mig={"2g.20gb": 1}, labels={"here": namespace})
    watcher.create(pod("holder-2", limits={BIG: "1"}, **near(watcher)))
    watcher.wait_bound(2)
    return watcher


@pytest.mark.contract("S3-B2", "S3-B12")
@pytest.mark.contract("S3-12")
def test_restore_budget_per_hour_survives_a_scheduler_restart(
    here: Watcher, cp: ControlPlane, product: Product
) -> None:
    """The move's ticket tells it: the pod that came of the move is gone."""
    before = degraded(here, deployment(here, "web"), 2)
    free_the_slice(here)
    moved = restored(here, "web")
    no_ticket(here)
    migration = here.client.get(f"{TICKETS}/{annotation(moved, well_known.MIGRATION)}")
    assert migration["status"]["result"] == "Succeeded"
    shown = cp.kubectl("-n", NAMESPACE, "get", "podmigrations", migration["metadata"]["name"])
    assert dict(zip(*map(str.split, shown.splitlines()), strict=True))["RESULT"] == "Succeeded"

    with away(product, "scheduler", crash=True):
        here.client.delete(here.path("Pod", moved["metadata"]["name"]), {"gracePeriodSeconds": 0})
        here.wait(
            "another pod",
            lambda items: len(of(items, "web")) == 2 and uids([moved]).isdisjoint(uids(items)),
        )
    here.wait("it to have a slice", lambda items: all(map(node_of, of(items, "web"))))
    here.client.delete(here.path("Pod", "holder-2"), {"gracePeriodSeconds": 0})

    [kept] = [item for item in of(here.pods(), "web") if tier(item) == {SMALL: "1"}]
    hears(here, kept["metadata"]["name"], "MigrationBlocked", "1 migrations within an hour")
    assert uids([kept]) < uids(before)


def test_migration_result_is_written_once(here: Watcher) -> None:
    """Also for an account with the right: a late write of a former leader changes nothing."""
    degraded(here, deployment(here, "once"), 2)
    free_the_slice(here)
    moved = restored(here, "once")
    no_ticket(here)
    path = f"{TICKETS}/{annotation(moved, well_known.MIGRATION)}"
    late = {"status": {"result": "DeadlineExceeded", "completionTime": "2026-11-27T10:00:00Z"}}

    with pytest.raises(ApiError, match="the result of a migration cannot be changed"):
        here.client.patch(f"{path}/status", late)


@pytest.mark.contract("S3-B2")
@pytest.mark.parametrize("was_away", [False, True], ids=["watched", "while-it-was-away"])
def test_tier_on_which_a_job_pod_failed_is_not_given_again(
    here: Watcher, product: Product, was_away: bool
) -> None:
    """It ends for good, so that no watch shows it; its Job keeps it for us to look up."""
    body = job("train", completions=1, limits={BIG: "1"}, annotations=AUTO, **near(here))
    [failing] = degraded(here, body, 1)
    assert next_of(here, like=failing) == {SMALL: "1"}

    state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    status = {"phase": "Failed", "containerStatuses": [{**app(failing), "state": state}]}
    path = f"{here.pods_path}/{failing['metadata']['name']}/status"
    with away(product, "scheduler", crash=True) if was_away else nullcontext():
        here.client.patch(path, {"status": status})

    here.client.wait_for(
        here.path("Job", "train"),
        lambda _: next_of(here) == {SMALL: "1"} and next_of(here, like=failing) == {BIG: "1"},
        what="its tier to be remembered",
    )


def app(item: Json) -> Json:
    """The status of a pod's container, as the API server wants it whole."""
    [container] = item["spec"]["containers"]
    return {"name": container["name"], "image": "app", "imageID": "", "ready": False} | {
        "restartCount": 0
    }


def next_of(here: Watcher, *, like: Json | None = None) -> dict[str, str]:
    """The tier that a next pod would get, on paper: a bare one, or one of the same controller."""
    asked = pod("next", limits={BIG: "1"}, annotations=AUTO, **near(here))
    if like is not None:
        asked["metadata"] |= {key: like["metadata"][key] for key in ("labels", "ownerReferences")}
    return tier(here.client.create(f"{here.pods_path}?dryRun=All", asked))
