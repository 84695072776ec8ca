"""Reservations: matching a pod, expiry, and which pods respect them."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.limits import RESERVED_MAX, RESERVED_PER_NAMESPACE_MAX
from scheduler.model.node import Namespace
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.namespaces import NamespaceStore
from scheduler.state.reservations import CONDITION_WAIT_MAX_S, Reservation, Reservations
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
    reservations = Reservations()
    for number, one in enumerate(pods, start=1):
        reservations.create(f"r-{number}", one, "n1", at, is_annotated=is_annotated)
    return reservations


def met(reservations: Reservations) -> list[str]:
    """Ids of the matched reservations, in order."""
    return sorted(one.id for one in reservations.holders(-(2**31)) if one.is_matched)


def only(reservations: Reservations) -> Reservation:
    [reservation] = reservations.holders(-(2**31))
    return reservation


def test_reservation_matches_its_pod_by_annotation() -> None:
    reservations = promised(reviewed(), reviewed())
    reservations.upsert_pod(tagged(tag="r-2"))

    assert met(reservations) == ["r-2"]
    assert [one.id for one in reservations.pending()] == ["r-1"]


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
    reservations = promised(review, is_annotated=False)
    reservations.upsert_pod(appears)

    assert bool(met(reservations)) is is_met


def test_unpatched_pods_match_the_oldest_reservation_first() -> None:
    reservations = promised(reviewed(), reviewed(), is_annotated=False)
    reservations.upsert_pod(created("web-b"))

    assert met(reservations) == ["r-1"]
    reservations.upsert_pod(created("web-b"))
    assert met(reservations) == ["r-1"]
    reservations.upsert_pod(created("web-a"))
    assert met(reservations) == ["r-1", "r-2"]


def test_annotated_reservation_ignores_a_look_alike_pod() -> None:
    reservations = promised(reviewed(), is_annotated=True)
    reservations.upsert_pod(created())

    assert met(reservations) == []


def test_tag_matches_one_pod_only() -> None:
    reservations = promised(reviewed())
    reservations.upsert_pod(tagged("web-x"))
    reservations.upsert_pod(tagged("web-y"))

    assert only(reservations).pod.name == "web-x"


def test_tag_of_another_namespace_matches_no_pod() -> None:
    reservations = promised(reviewed())
    reservations.upsert_pod(tagged(namespace="other"))

    assert met(reservations) == []


OVER = [
    pytest.param(created(node="n1"), id="bound"),
    pytest.param(created(deleting=True), id="being-deleted"),
    pytest.param(created(phase="Failed"), id="failed"),
]


@pytest.mark.parametrize("after", OVER)
def test_reservation_ends_when_its_pod_no_longer_needs_it(after: Pod) -> None:
    reservations = promised(reviewed())
    reservations.upsert_pod(tagged())
    reservations.upsert_pod(after)

    assert len(reservations) == 0


def test_reservation_ends_when_its_pod_is_deleted() -> None:
    reservations = promised(reviewed())
    reservations.upsert_pod(tagged())
    reservations.end(tagged().uid)
    reservations.end("absent")

    assert len(reservations) == 0


def test_relist_ends_only_reservations_of_deleted_pods() -> None:
    reservations = promised(reviewed(), reviewed(), reviewed())
    reservations.upsert_pod(tagged("web-x", "r-1"))
    reservations.upsert_pod(tagged("web-y", "r-2"))
    reservations.replace([tagged("web-y").uid])

    assert (met(reservations), [one.id for one in reservations.pending()]) == (["r-2"], ["r-3"])


def test_unmatched_reservation_expires_after_10s_and_matched_stays() -> None:
    reservations = promised(reviewed(), reviewed())
    reservations.upsert_pod(tagged(tag="r-1"))

    assert reservations.expire(NOW + 9.9) == 0
    assert reservations.expire(NOW + 10) == 1
    assert reservations.expire(NOW + 999) == 0
    assert met(reservations) == ["r-1"]


@pytest.mark.contract("S0-B3")
def test_restart_restores_reservations_of_pending_pods() -> None:
    """After a crash nothing is reserved twice."""
    reservations = Reservations()
    reservations.upsert_pod(tagged("web-x", FORMER, priority=5))
    reservations.upsert_pod(tagged("web-y", "r-" + 16 * "8", node="n1"))

    assert [(one.id, one.pod.name) for one in reservations.holders(5)] == [(FORMER, "web-x")]


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
    reservations = after_restart(space, scope)
    reservations.upsert_pod(tagged("squat", tag, **fields))

    assert len(reservations) == 0


@pytest.mark.parametrize(("fields", "space", "scope"), BELIEVED)
def test_plausible_reservation_is_restored(fields: Any, space: Namespace, scope: str) -> None:
    reservations = after_restart(space, scope)
    reservations.upsert_pod(tagged("web-x", FORMER, **fields))

    assert len(reservations) == 1


def test_restored_reservations_are_limited() -> None:
    """Without the webhook a user can write the annotation in any shape."""
    reservations = Reservations()
    for number in range(400):
        space = f"ns-{number // 100}"
        reservations.upsert_pod(tagged(f"p-{number}", f"r-{number:016x}", namespace=space))
    assert len(reservations) == 4 * RESERVED_PER_NAMESPACE_MAX

    reservations.upsert_pod(tagged("p", FORMER, namespace="one-more"))
    assert len(reservations) == RESERVED_MAX

    reservations.end(tagged("p-0", namespace="ns-0").uid)
    reservations.upsert_pod(tagged("p", FORMER, namespace="one-more"))
    assert len(reservations) == RESERVED_MAX


def test_foreign_reservation_expires_after_a_silent_minute() -> None:
    """Perhaps there is no scheduler of that name."""
    reservations = promised(reviewed(scheduler="other"), reviewed())
    reservations.upsert_pod(tagged("squat", "r-1", scheduler="other"))
    reservations.upsert_pod(tagged("web-x", "r-2"))

    assert reservations.expire(NOW) == 0
    assert reservations.expire(NOW + CONDITION_WAIT_MAX_S - 0.1) == 0
    assert reservations.expire(NOW + CONDITION_WAIT_MAX_S) == 1
    assert met(reservations) == ["r-2"], "our own scheduler needs no limit: it is this process"

    reservations.upsert_pod(tagged("squat", "r-1", scheduler="other"))
    assert met(reservations) == ["r-2"]


def test_foreign_reservation_lasts_while_its_scheduler_reports() -> None:
    reservations = promised(reviewed(scheduler="other"))
    reservations.upsert_pod(tagged("web-x", "r-1", scheduler="other"))
    reservations.expire(NOW)
    reservations.upsert_pod(tagged("web-x", "r-1", **OTHER))

    assert reservations.expire(NOW + 999) == 0
    assert met(reservations) == ["r-1"]


def test_reservation_follows_the_current_pod() -> None:
    reservations = promised(reviewed())
    reservations.upsert_pod(tagged())
    changed = tagged(labels={"app": "x"})
    reservations.upsert_pod(changed)

    assert only(reservations).pod == changed


def test_reservations_to_respect_by_priority_and_age() -> None:
    reservations = Reservations()
    for number, priority, at in ((1, 0, NOW), (2, 9, NOW), (3, 5, NOW), (4, 9, NOW - 1)):
        reservations.create(f"r-{number}", reviewed(priority=priority), "n1", at, is_annotated=True)

    assert [one.id for one in reservations.holders(5)] == ["r-4", "r-2", "r-3"]
    assert len(reservations.holders(0)) == 4


def test_owner_retry_releases_its_oldest_unmatched_reservation() -> None:
    """A full quota makes a controller create the same pod over and over."""
    reservations = promised(reviewed())
    for number in range(2, 6):
        reservations.create(f"r-{number}", reviewed(), "n1", NOW + 2 * number, is_annotated=True)

    assert [one.id for one in reservations.pending()] == ["r-5"]


def test_released_reservation_is_ignored_when_the_retry_is_decided() -> None:
    """Or the retry would be degraded by its own earlier attempt."""
    reservations = promised(reviewed())
    retried = reservations.retried(reviewed(), NOW + 1.1)

    assert retried is not None
    assert retried.id == "r-1"


def test_slow_pod_creation_makes_no_sibling_a_retry() -> None:
    """A slow API server: the pod of the first reservation is created after the third query."""
    reservations = promised(reviewed(), reviewed())
    reservations.upsert_pod(tagged("web-a", "r-1"), NOW + 0.9)
    reservations.create("r-3", reviewed(), "n1", NOW + 1.5, is_annotated=True)
    reservations.upsert_pod(tagged("web-b", "r-2"), NOW + 1.6)

    assert met(reservations) == ["r-1", "r-2"]
    assert len(reservations) == 3


def test_allowance_for_a_slow_api_server_decays() -> None:
    reservations = promised(reviewed())
    reservations.upsert_pod(tagged("web-a", "r-1"), NOW + 2)
    reservations.create("r-2", reviewed(), "n1", NOW + 60, is_annotated=True)

    assert reservations.retried(reviewed(), NOW + 61) is None
    assert reservations.retried(reviewed(), NOW + 61.1) is not None


@pytest.mark.parametrize(
    ("newcomer", "at"),
    [
        pytest.param(reviewed(), NOW + 1.0, id="a-sibling-of-the-same-second"),
        pytest.param(reviewed(owner="Deployment/db"), NOW + 5, id="another-owner"),
        pytest.param(reviewed("solo", owner=""), NOW + 5, id="a-bare-pod"),
    ],
)
def test_unrelated_pods_release_nothing(newcomer: Pod, at: float) -> None:
    reservations = promised(reviewed())
    assert reservations.retried(newcomer, at) is None

    reservations.create("r-2", newcomer, "n1", at, is_annotated=True)
    assert len(reservations) == 2


def test_matched_reservation_is_not_released() -> None:
    reservations = promised(reviewed())
    reservations.upsert_pod(tagged())

    assert reservations.retried(reviewed(), NOW + 5) is None


@pytest.mark.parametrize("each", [1, 4], ids=["one-device-a-pod", "four-devices-a-pod"])
def test_unmatched_devices_are_limited_per_namespace_and_in_total(each: int) -> None:
    reservations = Reservations()

    def asks(namespace: str, count: int = each) -> Pod:
        return reviewed(namespace=namespace, owner="", mig={"1g.10gb": count})

    def fill(namespace: str, count: int) -> None:
        for number in range(count // each):
            name = f"{namespace}-{number}"
            reservations.create(name, asks(namespace), "n1", NOW, is_annotated=True)

    fill("a", RESERVED_PER_NAMESPACE_MAX - each)
    assert reservations.has_room(asks("a"))
    assert not reservations.has_room(asks("a", each + 1))
    fill("b", RESERVED_PER_NAMESPACE_MAX)
    assert (reservations.has_room(asks("a")), reservations.has_room(asks("b"))) == (True, False)
    fill("c", RESERVED_PER_NAMESPACE_MAX)
    fill("d", RESERVED_PER_NAMESPACE_MAX)
    assert reservations.has_room(asks("fresh"))
    fill("e", RESERVED_MAX - 4 * RESERVED_PER_NAMESPACE_MAX + each)
    assert not reservations.has_room(asks("fresh"))

    reservations.expire(NOW + 10)
    assert reservations.has_room(asks("fresh"))


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
    reservations = promised(reviewed())
    reservations.upsert_pod(tagged())

    assert reservations.known("team", "r-1") is None
