"""PodGroups of scheduling.k8s.io as the API server sends them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.pods.gang import GangSource, GroupState, PodGroup
from scheduler.state import event as ev
from scheduler.watch.decode.groups.api_groups import POD_GROUPS

API = GangSource.API.value
META = {"name": "train", "namespace": "team", "uid": "u", "resourceVersion": "7"}


def group_json(spec: dict[str, Any], status: dict[str, Any] | None = None) -> bytes:
    """One as a watch sends it."""
    return msgspec.json.encode({"metadata": META, "spec": spec, "status": status or {}})


def group(minimum: int | None, **more: Any) -> PodGroup:
    """What is read of it."""
    return PodGroup("team", "train", minimum, source=API, uid="u", version="7", **more)


CONDITION = {
    "type": "PodGroupInitiallyScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "no room",
    "lastTransitionTime": "2026-11-30T10:00:00Z",
}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"schedulingPolicy": {"gang": {"minCount": 8}}}, group(8), id="gang"),
        pytest.param({"schedulingPolicy": {"basic": {}}}, group(None), id="basic"),
        pytest.param(
            {"schedulingPolicy": {"basic": {}}, "priority": 5}, group(None, priority=5), id="class"
        ),
        pytest.param(
            {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "gpus"}]},
            group(None, problem="spec.resourceClaims"),
            id="shared claims",
        ),
    ],
)
def test_the_policy_and_the_priority_are_read(spec: dict[str, Any], expected: PodGroup) -> None:
    assert POD_GROUPS.event(group_json(spec), is_gone=False) == ev.PodGroupUpdated(expected)


def test_the_condition_of_a_group_is_read() -> None:
    other = {"type": "DisruptionTarget", "status": "True", "reason": "x"}
    status = {"conditions": [other, CONDITION]}
    content = group_json({"schedulingPolicy": {"gang": {"minCount": 2}}}, status)

    read = POD_GROUPS.event(content, is_gone=False)

    state = GroupState(False, "Unschedulable", "no room", "2026-11-30T10:00:00Z")
    assert read == ev.PodGroupUpdated(group(2, state=state))


def test_an_unreadable_policy_counts_as_absent() -> None:
    content = group_json({"schedulingPolicy": {"gang": {"minCount": "all"}}})

    assert POD_GROUPS.event(content, is_gone=False) == ev.PodGroupDeleted("team", "train", API)
