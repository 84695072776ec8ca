"""What is read off controllers, pods and budgets as the API server has them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.bind.owner_reader import (
    Budget,
    Controller,
    FailurePolicy,
    PodNow,
    facts,
    ignores_disruptions,
)
from scheduler.model.crd.migration_actions import ReadOwner
from scheduler.model.crd.migration_blockers import OwnerFacts
from scheduler.model.pods.pod import Owner

Json = dict[str, Any]
REVISION = "deployment.kubernetes.io/revision"
SET = Owner("ReplicaSet", "web-r1", "u-rs")


def replica_set(**more: Any) -> Json:
    return {
        "metadata": {
            "uid": "u-rs",
            "annotations": {REVISION: "3"},
            "ownerReferences": [
                {"kind": "Deployment", "name": "web", "uid": "u-d", "controller": True}
            ],
            **more.get("metadata", {}),
        },
        "spec": {"replicas": 3, **more.get("spec", {})},
        "status": {"replicas": 3, "readyReplicas": 3, **more.get("status", {})},
    }


def deployment(**more: Any) -> Json:
    return {
        "metadata": {
            "uid": "u-d",
            "generation": 7,
            "annotations": {REVISION: "3"},
            **more.get("metadata", {}),
        },
        "spec": {"replicas": 3, **more.get("spec", {})},
        "status": {
            "observedGeneration": 7,
            "replicas": 3,
            "updatedReplicas": 3,
            **more.get("status", {}),
        },
    }


READY = {
    "metadata": {"resourceVersion": "99"},
    "spec": {"terminationGracePeriodSeconds": 12},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}


def asked(owner: Owner = SET, **more: Any) -> ReadOwner:
    return ReadOwner(
        **{
            "namespace": "team",
            "pod_name": "p",
            "pod_uid": "u-p",
            "owner": owner,
            "revision": "r1",
            "labels": {"app": "web"},
            **more,
        }
    )


def read(
    owner: Json | None = None,
    above: Json | None = None,
    pod: Json = READY,
    budgets: tuple[Json, ...] = (),
    ask: ReadOwner | None = None,
) -> OwnerFacts:
    return facts(
        ask or asked(),
        msgspec.convert(owner, Controller) if owner is not None else None,
        msgspec.convert(above, Controller) if above is not None else None,
        msgspec.convert(pod, PodNow),
        tuple(msgspec.convert(one, Budget) for one in budgets),
    )


def test_idle_deployment() -> None:
    assert read(replica_set(), deployment()) == OwnerFacts(
        event_target=Owner("Deployment", "web", "u-d"), grace_s=12, version="99", replicas=3
    )


@pytest.mark.parametrize(
    ("owner", "above", "expected"),
    [
        pytest.param(None, None, {"is_owner_gone": True}, id="gone"),
        pytest.param(replica_set(), None, {"is_owner_gone": True}, id="deployment-gone"),
        pytest.param(
            replica_set(metadata={"uid": "another"}),
            deployment(),
            {"is_owner_gone": True},
            id="another-of-its-name",
        ),
        pytest.param(
            replica_set(),
            deployment(metadata={"deletionTimestamp": "2026-11-27T10:00:00Z"}),
            {"is_owner_gone": True},
            id="being-deleted",
        ),
        pytest.param(
            replica_set(),
            deployment(metadata={"annotations": {REVISION: "4"}}),
            {"is_outdated": True},
            id="template-edited",
        ),
        pytest.param(
            replica_set(),
            deployment(metadata={"generation": 8}),
            {"is_rolling_out": True},
            id="edit-not-seen-yet",
        ),
        pytest.param(
            replica_set(),
            deployment(status={"updatedReplicas": 1}),
            {"is_rolling_out": True},
            id="rolling-out",
        ),
        pytest.param(
            replica_set(spec={"replicas": 2}), deployment(), {"is_over_count": True}, id="scaled"
        ),
        pytest.param(
            replica_set(status={"readyReplicas": 1}), deployment(), {"others_down": 2}, id="down"
        ),
        pytest.param(
            replica_set(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}),
            deployment(),
            {"manager": "Kueue"},
            id="kueue",
        ),
    ],
)
def test_deployment_facts(owner: Json | None, above: Json | None, expected: Json) -> None:
    found = read(owner, above)

    assert {key: getattr(found, key) for key in expected} == expected


def test_a_replica_set_of_an_unknown_controller_is_managed_elsewhere() -> None:
    reference = {"kind": "Rollout", "name": "web", "uid": "u", "controller": True}

    found = read(replica_set(metadata={"ownerReferences": [reference]}))

    assert found.manager == "Rollout web"


def test_budgets_that_cover_the_pod() -> None:
    mine = {"spec": {"selector": {"matchLabels": {"app": "web"}}}}
    other = {"spec": {"selector": {"matchLabels": {"app": "db"}}}}
    allowing = {**mine, "status": {"disruptionsAllowed": 2}}

    def allowed(*budgets: Json) -> tuple[bool, int]:
        found = read(replica_set(), deployment(), budgets=budgets)
        return found.has_budget, found.disruptions_allowed

    assert allowed() == (False, 1)
    assert allowed(other) == (False, 1)
    assert allowed(mine) == (True, 0)
    assert allowed(allowing, other) == (True, 2)
    assert allowed(allowing, allowing) == (True, 0)  # the Eviction API refuses it then


@pytest.mark.parametrize(
    ("status", "index", "expected"),
    [
        pytest.param({}, 1, {}, id="at-rest"),
        pytest.param(
            {"updateRevision": "r2"},
            1,
            {"is_outdated": True, "is_rolling_out": True},
            id="template-edited",
        ),
        pytest.param({"currentRevision": "r0"}, 1, {"is_rolling_out": True}, id="rolling-out"),
        pytest.param({}, 5, {"is_over_count": True}, id="scaled-down"),
        pytest.param({"readyReplicas": 1}, 1, {"others_down": 1}, id="down"),
    ],
)
def test_stateful_set_facts(status: Json, index: int, expected: Json) -> None:
    body = {
        "metadata": {"uid": "u-s"},
        "spec": {"replicas": 2, "ordinals": {"start": 1}},
        "status": {
            "currentRevision": "r1",
            "updateRevision": "r1",
            "readyReplicas": 2,
            **status,
        },
    }
    quiet = {"is_outdated": False, "is_rolling_out": False, "is_over_count": False}

    found = read(body, ask=asked(Owner("StatefulSet", "db", "u-s"), index=index))

    wanted = {**quiet, "others_down": 0, **expected}
    assert {key: getattr(found, key) for key in wanted} == wanted


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        pytest.param({"suspend": True}, {}, {"is_suspended": True}, id="suspended"),
        pytest.param(
            {"managedBy": "kueue.x-k8s.io/multikueue"},
            {},
            {"manager": "kueue.x-k8s.io/multikueue"},
            id="managed",
        ),
        pytest.param({}, {"completionTime": "2026"}, {"is_owner_gone": True}, id="complete"),
        pytest.param({"parallelism": 4}, {}, {"replicas": 4}, id="parallel"),
        pytest.param({}, {}, {"ignores_disruptions": False}, id="without-a-policy"),
    ],
)
def test_job_facts(spec: Json, status: Json, expected: Json) -> None:
    body = {"metadata": {"uid": "u-j"}, "spec": spec, "status": status}

    found = read(body, ask=asked(Owner("Job", "j", "u-j")))

    assert {key: getattr(found, key) for key in expected} == expected


DISRUPTED = {"onPodConditions": [{"type": "DisruptionTarget"}]}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param([], False, id="none"),
        pytest.param([{"action": "Ignore", **DISRUPTED}], True, id="ignored"),
        pytest.param([{"action": "Count", **DISRUPTED}], False, id="counted"),
        pytest.param(
            [{"action": "FailJob", **DISRUPTED}, {"action": "Ignore", **DISRUPTED}],
            False,
            id="the-first-decides",
        ),
        pytest.param(
            [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
                {"action": "Ignore", **DISRUPTED},
            ],
            True,
            id="another-exit-code-first",
        ),
        pytest.param(
            [
                {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [143]}},
                {"action": "Ignore", **DISRUPTED},
            ],
            False,
            id="the-code-of-an-eviction-first",
        ),
        pytest.param(
            [
                {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}},
                {"action": "Ignore", **DISRUPTED},
            ],
            False,
            id="every-other-code-first",
        ),
        pytest.param(
            [
                {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [137, 143]}},
                {"action": "Ignore", **DISRUPTED},
            ],
            True,
            id="all-but-an-eviction-first",
        ),
        pytest.param(
            [
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "False"}],
                }
            ],
            False,
            id="another-status",
        ),
    ],
)
def test_whether_a_job_counts_an_eviction_as_a_failure(rules: list[Json], expected: bool) -> None:
    policy = msgspec.convert({"rules": rules}, FailurePolicy)

    assert ignores_disruptions(policy) is expected
