"""Reservations: matching a pod, expiry, and which pods respect them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.limits import RESERVED_MAX, RESERVED_PER_NAMESPACE_MAX
from scheduler.model.node import Namespace
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.namespaces import NamespaceStore
from scheduler.state.reservations import SILENT_MAX_S, Reservation, Reservations
from scheduler.state.webhook_scope import WebhookScope
from tests.builders import namespace, pod

NOW = 1000.0
TIER = {"2g.20gb": 1}
#: An id that a process gave which is gone.
FORMER = "r-0123456789abcdef"
TEAM = namespace()


def reviewed(name: str = "web-", **fields: Any) -> Pod:
    """A pod under review: no uid, and of a controller's pod only the beginning of its name."""
    return pod(name, **{"mig": TIER, "uid": "", "owner": "Deployment/web", **fields})


def created(name: str = "web-x", **fields: Any) -> Pod:
    """The same pod as the watch shows it."""
    return pod(name, **{"mig": TIER, "owner": "Deployment/web", **fields})


def tagged(name: str = "web-x", tag: str = "r-1", **fields: Any) -> Pod:
    return created(name, annotations={well_known.RESERVATION: tag}, **fields)


def promised(*pods: Pod, is_annotated: bool = True, at: float = NOW) -> Reservations:
    promises = Reservations()
    for number, one in enumerate(pods, start=1):
        promises.create(f"r-{number}", one, "n1", at, is_annotated=is_annotated)
    return promises


def met(promises: Reservations) -> list[str]:
    """Ids of the matched reservations, in order."""
    return sorted(one.id for one in promises.holders(-(2**31)) if one.is_matched)


def only(promises: Reservations) -> Reservation:
    [promise] = promises.holders(-(2**31))
    return promise


def test_reservation_matches_its_pod_by_annotation() -> None:
    promises = promised(reviewed(), reviewed())
    promises.upsert_pod(tagged(tag="r-2"))

    assert met(promises) == ["r-2"]
    assert [one.id for one in promises.pending()] == ["r-1"]


@pytest.mark.parametrize(
    ("review", "appears", "is_met"),
    [
        pytest.param(reviewed(), created("web-x"), True, id="by-owner"),
        pytest.param(reviewed("solo", owner=""), created("solo", owner=""), True, id="by-name"),
        pytest.param(reviewed(), created(owner="Deployment/db"), False, id="another-owner"),
        pytest.param(reviewed(), created(namespace="other"), False, id="another-namespace"),
        pytest.param(reviewed(), created(mig={"1g.10gb": 1}), False, id="another-request"),
        pytest.param(reviewed("a", owner=""), created("b", owner=""), False, id="another-name"),
    ],
)
def test_unpatched_pod_is_matched_by_its_content(review: Pod, appears: Pod, is_met: bool) -> None:
    promises = promised(review, is_annotated=False)
    promises.upsert_pod(appears)

    assert bool(met(promises)) is is_met


def test_unpatched_pods_match_the_oldest_reservation_first() -> None:
    promises = promised(reviewed(), reviewed(), is_annotated=False)
    promises.upsert_pod(created("web-b"))

    assert met(promises) == ["r-1"]
    promises.upsert_pod(created("web-b"))
    assert met(promises) == ["r-1"]
    promises.upsert_pod(created("web-a"))
    assert met(promises) == ["r-1", "r-2"]


def test_annotated_reservation_ignores_a_look_alike_pod() -> None:
    promises = promised(reviewed(), is_annotated=True)
    promises.upsert_pod(created())

    assert met(promises) == []


def test_tag_matches_one_pod_only() -> None:
    promises = promised(reviewed())
    promises.upsert_pod(tagged("web-x"))
    promises.upsert_pod(tagged("web-y"))

    assert only(promises).pod.name == "web-x"


def test_tag_of_another_namespace_matches_no_pod() -> None:
    promises = promised(reviewed())
    promises.upsert_pod(tagged(namespace="other"))

    assert met(promises) == []


OVER = [
    pytest.param(created(node="n1"), id="bound"),
    pytest.param(created(deleting=True), id="being-deleted"),
    pytest.param(created(phase="Failed"), id="failed"),
]


@pytest.mark.parametrize("after", OVER)
def test_reservation_ends_when_its_pod_no_longer_needs_it(after: Pod) -> None:
    promises = promised(reviewed())
    promises.upsert_pod(tagged())
    promises.upsert_pod(after)

    assert len(promises) == 0


def test_reservation_ends_when_its_pod_is_deleted() -> None:
    promises = promised(reviewed())
    promises.upsert_pod(tagged())
    promises.end(tagged().uid)
    promises.end("absent")

    assert len(promises) == 0


def test_relist_ends_only_reservations_of_deleted_pods() -> None:
    promises = promised(reviewed(), reviewed(), reviewed())
    promises.upsert_pod(tagged("web-x", "r-1"))
    promises.upsert_pod(tagged("web-y", "r-2"))
    promises.replace([tagged("web-y").uid])

    assert (met(promises), [one.id for one in promises.pending()]) == (["r-2"], ["r-3"])


def test_unmatched_reservation_expires_after_10s_and_matched_stays() -> None:
    promises = promised(reviewed(), reviewed())
    promises.upsert_pod(tagged(tag="r-1"))

    assert promises.expire(NOW + 9.9) == 0
    assert promises.expire(NOW + 10) == 1
    assert promises.expire(NOW + 999) == 0
    assert met(promises) == ["r-1"]


@pytest.mark.contract("S0-B3")
def test_restart_restores_reservations_of_pending_pods() -> None:
    """After a crash nothing is reserved twice."""
    promises = Reservations()
    promises.upsert_pod(tagged("web-x", FORMER, priority=5))
    promises.upsert_pod(tagged("web-y", "r-" + 16 * "8", node="n1"))

    assert [(one.id, one.pod.name) for one in promises.holders(5)] == [(FORMER, "web-x")]


SAID = {"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "X"}]}}
GATES = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
ENABLED = namespace(labels={well_known.FALLBACK_NAMESPACE: "enabled"})
OPTED_OUT = namespace(labels={well_known.WEBHOOK_OPT_OUT: "disabled"})
OTHER = {"scheduler": "other", **SAID}

#: (id, pod, namespace, fallback.scope): what a pod says of itself where this process knows nothing.
FORGED = [
    pytest.param("r-evil", {}, TEAM, "ours", id="an-id-of-another-shape"),
    pytest.param("r-0123456789abcdef0", {}, TEAM, "ours", id="a-longer-id"),
    pytest.param("", {}, TEAM, "ours", id="no-id"),
    pytest.param(FORMER, OTHER, TEAM, "ours", id="of-a-scheduler-that-the-webhook-passes-by"),
    pytest.param(FORMER, {"scheduler": "no"}, TEAM, "all", id="of-a-scheduler-that-says-nothing"),
    pytest.param(
        FORMER,
        {"scheduler": "no", "status": {"conditions": [GATES]}},
        TEAM,
        "all",
        id="said-by-the-api-server",
    ),
    pytest.param(FORMER, {"gates": ["later"]}, TEAM, "ours", id="gated"),
    pytest.param(FORMER, {}, OPTED_OUT, "ours", id="in-a-namespace-that-opted-out"),
    pytest.param(FORMER, {"mig": {"1g.10gb": 65}}, TEAM, "ours", id="more-than-could-be-promised"),
]
BELIEVED = [
    pytest.param({}, TEAM, "ours", id="ours"),
    pytest.param(OTHER, TEAM, "all", id="another-schedulers-where-the-webhook-sees-all"),
    pytest.param(OTHER, ENABLED, "ours", id="another-schedulers-in-an-enabled-namespace"),
]


def after_restart(space: Namespace, scope: str) -> Reservations:
    namespaces = NamespaceStore("labelled")
    namespaces.upsert(space)
    return Reservations(WebhookScope(scope=scope), namespaces)


@pytest.mark.parametrize(("tag", "fields", "space", "scope"), FORGED)
def test_forged_reservation_annotation_reserves_nothing(
    tag: str, fields: Any, space: Namespace, scope: str
) -> None:
    promises = after_restart(space, scope)
    promises.upsert_pod(tagged("squat", tag, **fields))

    assert len(promises) == 0


@pytest.mark.parametrize(("fields", "space", "scope"), BELIEVED)
def test_plausible_reservation_is_restored(fields: Any, space: Namespace, scope: str) -> None:
    promises = after_restart(space, scope)
    promises.upsert_pod(tagged("web-x", FORMER, **fields))

    assert len(promises) == 1


def test_restored_reservations_are_limited() -> None:
    """Without the webhook a user can write the annotation in any shape."""
    promises = Reservations()
    for number in range(400):
        space = f"ns-{number // 100}"
        promises.upsert_pod(tagged(f"p-{number}", f"r-{number:016x}", namespace=space))
    assert len(promises) == 4 * RESERVED_PER_NAMESPACE_MAX

    promises.upsert_pod(tagged("p", FORMER, namespace="one-more"))
    assert len(promises) == RESERVED_MAX

    promises.end(tagged("p-0", namespace="ns-0").uid)
    promises.upsert_pod(tagged("p", FORMER, namespace="one-more"))
    assert len(promises) == RESERVED_MAX


def test_foreign_reservation_expires_after_a_silent_minute() -> None:
    """Perhaps there is no scheduler of that name."""
    promises = promised(reviewed(scheduler="other"), reviewed())
    promises.upsert_pod(tagged("squat", "r-1", scheduler="other"))
    promises.upsert_pod(tagged("web-x", "r-2"))

    assert promises.expire(NOW) == 0
    assert promises.expire(NOW + SILENT_MAX_S - 0.1) == 0
    assert promises.expire(NOW + SILENT_MAX_S) == 1
    assert met(promises) == ["r-2"], "our own scheduler needs no limit: it is this process"

    promises.upsert_pod(tagged("squat", "r-1", scheduler="other"))
    assert met(promises) == ["r-2"]


def test_foreign_reservation_lasts_while_its_scheduler_reports() -> None:
    promises = promised(reviewed(scheduler="other"))
    promises.upsert_pod(tagged("web-x", "r-1", scheduler="other"))
    promises.expire(NOW)
    promises.upsert_pod(tagged("web-x", "r-1", **OTHER))

    assert promises.expire(NOW + 999) == 0
    assert met(promises) == ["r-1"]


def test_reservation_follows_the_current_pod() -> None:
    promises = promised(reviewed())
    promises.upsert_pod(tagged())
    changed = tagged(labels={"app": "x"})
    promises.upsert_pod(changed)

    assert only(promises).pod == changed


def test_reservations_to_respect_by_priority_and_age() -> None:
    promises = Reservations()
    for number, priority, at in ((1, 0, NOW), (2, 9, NOW), (3, 5, NOW), (4, 9, NOW - 1)):
        promises.create(f"r-{number}", reviewed(priority=priority), "n1", at, is_annotated=True)

    assert [one.id for one in promises.holders(5)] == ["r-4", "r-2", "r-3"]
    assert len(promises.holders(0)) == 4


def test_owner_retry_releases_its_oldest_unmatched_reservation() -> None:
    """A full quota makes a controller create the same pod over and over."""
    promises = promised(reviewed())
    for number in range(2, 6):
        promises.create(f"r-{number}", reviewed(), "n1", NOW + 2 * number, is_annotated=True)

    assert [one.id for one in promises.pending()] == ["r-5"]


def test_released_reservation_is_ignored_when_the_retry_is_decided() -> None:
    """Or the retry would be degraded by its own earlier attempt."""
    promises = promised(reviewed())
    retried = promises.retried(reviewed(), NOW + 1.1)

    assert retried is not None
    assert retried.id == "r-1"


def test_slow_pod_creation_makes_no_sibling_a_retry() -> None:
    """A slow API server: the pod of the first reservation is created after the third query."""
    promises = promised(reviewed(), reviewed())
    promises.upsert_pod(tagged("web-a", "r-1"), NOW + 0.9)
    promises.create("r-3", reviewed(), "n1", NOW + 1.5, is_annotated=True)
    promises.upsert_pod(tagged("web-b", "r-2"), NOW + 1.6)

    assert met(promises) == ["r-1", "r-2"]
    assert len(promises) == 3


def test_allowance_for_a_slow_api_server_decays() -> None:
    promises = promised(reviewed())
    promises.upsert_pod(tagged("web-a", "r-1"), NOW + 2)
    promises.create("r-2", reviewed(), "n1", NOW + 60, is_annotated=True)

    assert promises.retried(reviewed(), NOW + 61) is None
    assert promises.retried(reviewed(), NOW + 61.1) is not None


@pytest.mark.parametrize(
    ("newcomer", "at"),
    [
        pytest.param(reviewed(), NOW + 1.0, id="a-sibling-of-the-same-second"),
        pytest.param(reviewed(owner="Deployment/db"), NOW + 5, id="another-owner"),
        pytest.param(reviewed("solo", owner=""), NOW + 5, id="a-bare-pod"),
    ],
)
def test_unrelated_pods_release_nothing(newcomer: Pod, at: float) -> None:
    promises = promised(reviewed())
    assert promises.retried(newcomer, at) is None

    promises.create("r-2", newcomer, "n1", at, is_annotated=True)
    assert len(promises) == 2


def test_matched_reservation_is_not_released() -> None:
    promises = promised(reviewed())
    promises.upsert_pod(tagged())

    assert promises.retried(reviewed(), NOW + 5) is None


@pytest.mark.parametrize("each", [1, 4], ids=["one-device-a-pod", "four-devices-a-pod"])
def test_unmatched_devices_are_limited_per_namespace_and_in_total(each: int) -> None:
    promises = Reservations()

    def asks(namespace: str, count: int = each) -> Pod:
        return reviewed(namespace=namespace, owner="", mig={"1g.10gb": count})

    def fill(namespace: str, count: int) -> None:
        for number in range(count // each):
            name = f"{namespace}-{number}"
            promises.create(name, asks(namespace), "n1", NOW, is_annotated=True)

    fill("a", RESERVED_PER_NAMESPACE_MAX - each)
    assert promises.has_room(asks("a"))
    assert not promises.has_room(asks("a", each + 1))
    fill("b", RESERVED_PER_NAMESPACE_MAX)
    assert (promises.has_room(asks("a")), promises.has_room(asks("b"))) == (True, False)
    fill("c", RESERVED_PER_NAMESPACE_MAX)
    fill("d", RESERVED_PER_NAMESPACE_MAX)
    assert promises.has_room(asks("fresh"))
    fill("e", RESERVED_MAX - 4 * RESERVED_PER_NAMESPACE_MAX + each)
    assert not promises.has_room(asks("fresh"))

    promises.expire(NOW + 10)
    assert promises.has_room(asks("fresh"))


@pytest.mark.parametrize(
    ("namespace", "tag", "known"),
    [
        pytest.param("team", "r-1", True, id="ours"),
        pytest.param("other", "r-1", False, id="given-to-another-namespace"),
        pytest.param("team", "r-9", False, id="never-given"),
    ],
)
def test_a_second_call_of_one_admission_is_recognised(
    namespace: str, tag: str, known: bool
) -> None:
    assert (promised(reviewed()).known(namespace, tag) is not None) is known


def test_matched_reservation_is_no_second_call() -> None:
    promises = promised(reviewed())
    promises.upsert_pod(tagged())

    assert promises.known("team", "r-1") is None
