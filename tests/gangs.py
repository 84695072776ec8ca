"""Members of gangs for tests."""

from __future__ import annotations

from typing import Any, Unpack

from scheduler.decide.gang.rank import largest_first
from scheduler.decide.schedule_one import schedule_one
from scheduler.decide.view import WhatIfView
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.model import well_known
from scheduler.model.pods.gang import GangSource, GroupState, PodGroup
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import PodFields, pod

COSCHEDULING = "scheduling.x-k8s.io/pod-group"


def member(name: str, minimum: int, group: str = "train", **fields: Unpack[PodFields]) -> Pod:
    """A pod that names its group and its minimum itself."""
    fields["labels"] = {**fields.get("labels", {}), well_known.GROUP: group}
    fields["annotations"] = {
        **fields.get("annotations", {}),
        well_known.GROUP_MIN: str(minimum),
    }
    return pod(name, **fields)


def members(
    count: int, minimum: int, group: str = "train", **fields: Unpack[PodFields]
) -> list[Pod]:
    """So many equal members, in the order of their creation."""
    first = fields.get("created", 0)
    found = []
    for number in range(count):
        fields["created"] = first + number
        found.append(member(f"{group}-{number}", minimum, group, **fields))
    return found


def of_pod_group(name: str, group: str = "train", **fields: Unpack[PodFields]) -> Pod:
    """A pod whose spec names a PodGroup of the API server."""
    fields["spec"] = {**fields.get("spec", {}), "schedulingGroup": {"podGroupName": group}}
    return pod(name, **fields)


def pod_group(
    minimum: int | None, name: str = "train", *, state: GroupState | None = None, **more: Any
) -> PodGroup:
    """A PodGroup of the API server; without a minimum one with the policy ``basic``."""
    return PodGroup("team", name, minimum, source=GangSource.API.value, state=state, **more)


def one_by_one(state: Cluster, waiting: list[Pod], pipeline: Pipeline) -> list[Placement]:
    """The members that fit, each decided on a view of its own with those before it."""
    found: list[Placement] = []
    for one in largest_first(waiting):
        view = WhatIfView(state)
        for before in found:
            view.place_decided(before)
        decision = schedule_one(view, one, pipeline)
        if isinstance(decision, Placement):
            found.append(decision)
    return found
