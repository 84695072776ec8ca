"""Members of gangs for tests."""

from __future__ import annotations

from typing import Unpack

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
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
