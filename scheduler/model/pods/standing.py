"""What a pod's object says about its scheduling: its standing, its requests and its assignment."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.quantity import format_value

#: The state of a pod.
PLACED: Final = "placed"
WAITS: Final = "waits"
GATED: Final = "gated"
ENDED: Final = "ended"
GOES: Final = "goes"


class Given(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The assignment in the pod's annotations; an absent annotation is an empty text."""

    devices: str = ""
    index: str = ""
    cuda_visible_devices: str = ""
    fallback: str = ""
    original: str = ""
    memory: str = ""
    tier_nodes: str = ""
    decision: str = ""
    epoch: str = ""


def given_of(pod: Pod) -> Given:
    """The assignment of a pod."""
    annotation = pod.annotations.get
    return Given(
        devices=annotation(well_known.DEVICES, ""),
        index=annotation(well_known.POD_INDEX, ""),
        cuda_visible_devices=annotation(well_known.CUDA_VISIBLE_DEVICES, ""),
        fallback=annotation(well_known.FALLBACK, ""),
        original=annotation(well_known.ORIGINAL, ""),
        memory=annotation(well_known.MEMORY_GIVEN, ""),
        tier_nodes=annotation(well_known.TIER_NODES, ""),
        decision=annotation(well_known.DECISION, ""),
        epoch=annotation(well_known.EPOCH, ""),
    )


def asks_of(pod: Pod) -> dict[str, str]:
    """What the pod requests: GPUs first, then cpu and memory."""
    names = (*sorted(pod.gpu_requests), well_known.CPU, well_known.MEMORY)
    amounts = {name: pod.requests[name] for name in names if pod.requests.get(name)}
    return {name: format_value(name, amount) for name, amount in amounts.items()}


def standing_of(pod: Pod) -> str:
    """The state of a pod."""
    if pod.is_terminal:
        return ENDED
    if pod.is_deleting:
        return GOES
    if pod.node_name:
        return PLACED
    return GATED if pod.gates else WAITS
