"""PodGroups of scheduler-plugins as the API server sends them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.limits import GANG_MEMBERS_MAX
from scheduler.model.pods.gang import PodGroup
from scheduler.state import event as ev
from scheduler.watch.decode.groups.coscheduling import POD_GROUPS


def group_json(spec: dict[str, Any], name: str = "train") -> bytes:
    meta = {"name": name, "namespace": "team", "uid": "u"}
    return msgspec.json.encode({"kind": "PodGroup", "metadata": meta, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "minimum"),
    [
        pytest.param({"minMember": 8, "scheduleTimeoutSeconds": 60}, 8, id="a minimum"),
        pytest.param({}, 1, id="none"),
        pytest.param({"minMember": 0}, 1, id="zero"),
    ],
)
def test_the_minimum_is_read(spec: dict[str, Any], minimum: int) -> None:
    expected = ev.PodGroupUpdated(PodGroup("team", "train", minimum))

    assert POD_GROUPS.event(group_json(spec), is_gone=False) == expected


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"minMember": "many"}, id="no number"),
        pytest.param({"minMember": GANG_MEMBERS_MAX + 1}, id="too many"),
    ],
)
def test_an_unreadable_group_counts_as_absent(spec: dict[str, Any]) -> None:
    items = [msgspec.Raw(group_json(spec)), msgspec.Raw(group_json({"minMember": 2}, "good"))]

    assert POD_GROUPS.event(group_json(spec), is_gone=False) == ev.PodGroupDeleted("team", "train")
    assert POD_GROUPS.listed(items) == ev.PodGroupsReplaced((PodGroup("team", "good", 2),))


def test_a_deleted_group_is_gone() -> None:
    gone = POD_GROUPS.event(group_json({"minMember": 2}), is_gone=True)

    assert gone == ev.PodGroupDeleted("team", "train")
