"""Members of gangs for tests."""

from __future__ import annotations

from typing import Unpack

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from tests.builders import PodFields, pod

COSCHEDULING = "scheduling.x-k8s.io/pod-group"


def member(name: str, minimum: int, group: str = "train", **fields: Unpack[PodFields]) -> Pod:
    """A pod that names its group and its minimum itself."""
    fields["labels"] = {well_known.GROUP: group, **fields.get("labels", {})}
    fields["annotations"] = {
        well_known.GROUP_MIN: str(minimum),
        **fields.get("annotations", {}),
    }
    return pod(name, **fields)


def members(
    count: int, minimum: int, group: str = "train", **fields: Unpack[PodFields]
) -> list[Pod]:
    """So many equal members, in the order of their creation."""
    return [
        member(f"{group}-{number}", minimum, group, **{"created": number, **fields})
        for number in range(count)
    ]
