"""The objects of the API group, as kubectl reads them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import msgspec
import pytest

from scheduler.model.decisions.messages import NamespaceAnswer, PodDecision
from webhook.aggregated import objects

NOW = datetime(2026, 11, 27, 12, 5, tzinfo=UTC)
WAITS = PodDecision(
    pod="web-0",
    uid="u1",
    state="Pending",
    created="2026-11-27T10:00:00Z",
    reason="INSUFFICIENT",
    message="no room",
    answer=msgspec.Raw(b'{"kind":"PodDecisions"}'),
)
PLACED = PodDecision(pod="web-1", uid="u2", state="Scheduled", node="n1")
ANSWER = NamespaceAnswer(decisions=(WAITS, PLACED), left_out=3)
META = {"name": "web-1", "namespace": "team", "uid": "u2"}


def test_discovery_names_one_resource_with_get_and_list() -> None:
    [group] = objects.groups()["groups"]
    whole = objects.group_of()
    [resource] = objects.resources()["resources"]

    assert whole == {"kind": "APIGroup", "apiVersion": "v1", **group}
    assert group["preferredVersion"]["groupVersion"] == "decisions.gpu-scheduler.io/v1alpha1"
    assert (resource["name"], resource["kind"]) == ("decisions", "Decision")
    assert (resource["verbs"], resource["namespaced"]) == (["get", "list"], True)


def test_decision_has_its_explanation_and_no_empty_field() -> None:
    whole = json.loads(objects.encode(objects.decision("team", WAITS)))

    assert whole == {
        "apiVersion": "decisions.gpu-scheduler.io/v1alpha1",
        "kind": "Decision",
        "metadata": {
            "name": "web-0",
            "namespace": "team",
            "uid": "u1",
            "creationTimestamp": "2026-11-27T10:00:00Z",
        },
        "state": "Pending",
        "reason": "INSUFFICIENT",
        "message": "no room",
        "answer": {"kind": "PodDecisions"},
    }


def test_list_has_items_and_the_number_of_the_others() -> None:
    found = objects.decisions("team", ANSWER)

    assert found["kind"] == "DecisionList"
    assert [one["metadata"]["name"] for one in found["items"]] == ["web-0", "web-1"]
    assert found["metadata"] == {"remainingItemCount": 3}
    assert objects.decisions("team", NamespaceAnswer())["items"] == []


def test_table_has_pod_state_reason_node_and_age() -> None:
    found = objects.table("team", ANSWER, "Metadata", NOW)

    shown = [one["name"] for one in found["columnDefinitions"] if one["priority"] == 0]
    assert shown == ["Pod", "State", "Reason", "Node", "Age"]
    assert [row["cells"][:5] for row in found["rows"]] == [
        ["web-0", "Pending", "INSUFFICIENT", "", "2h5m"],
        ["web-1", "Scheduled", "", "n1", ""],
    ]
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    assert found["rows"][1]["object"] == {**partial, "metadata": META}


@pytest.mark.parametrize(
    ("included", "kind"),
    [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "Decision")],
)
def test_rows_include_what_is_asked_for(included: str, kind: str | None) -> None:
    [first, _] = objects.table("team", ANSWER, included, NOW)["rows"]

    assert first.get("object", {}).get("kind") == kind


def test_failure_is_a_status() -> None:
    found = objects.status(405, "MethodNotAllowed", "no")

    assert (found["kind"], found["apiVersion"], found["status"]) == ("Status", "v1", "Failure")
    assert (found["code"], found["reason"], found["message"]) == (405, "MethodNotAllowed", "no")
