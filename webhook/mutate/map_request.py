"""Requests the GPUs of its map for a pod that requests none, where they are DRA devices.

A pod gets DRA devices by a request only. The first container gets all GPUs of the pod's line.
"""

from __future__ import annotations

from typing import Final

from scheduler.model import well_known
from webhook.mutate import raw_pod
from webhook.mutate.pod_draft import PodDraft

_SIDES: Final = ("limits", "requests")


def add(draft: PodDraft, count: int) -> None:
    """Request so many GPUs in the first container, and record it."""
    slot = next((one for one in raw_pod.slots(draft.pod) if not one.is_init), None)
    if slot is None:
        return
    asked = {
        side: {**raw_pod.resources(slot.container, side), well_known.GPU: str(count)}
        for side in _SIDES
    }
    resources = {**raw_pod.mapping(slot.container.get("resources")), **asked}
    draft.pod = raw_pod.with_container(draft.pod, slot, {**slot.container, "resources": resources})
    record = f"{slot.name}={count}"
    draft.annotate({well_known.MAP_REQUEST: record})
    draft.log.append(
        f"Requested {well_known.GPU}: {count} in container {slot.name} of pod {draft.key}: its map"
        " names DRA devices"
    )
    draft.audit["map-request"] = record
