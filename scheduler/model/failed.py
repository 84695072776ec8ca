"""GPUs that failed: they exist, and nobody may use them.

Who looks after a node's devices says so by an annotation (``gpu-scheduler.io/unusable-devices``),
and lowers what the node offers. Both do not arrive in one moment, so what is offered is read here
as if they did.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.model import names


def failed_gpus(annotations: Mapping[str, str]) -> frozenset[int]:
    """Their indexes."""
    words = annotations.get(names.UNUSABLE_DEVICES, "").split(",")
    return frozenset(int(word) for word in words if word.isascii() and word.isdigit())


def index_count(labels: Mapping[str, str], annotations: Mapping[str, str], offered: int) -> int:
    """How many indexes there are on a node that numbers its GPUs, the failed ones among them."""
    text = labels.get(names.GPU_COUNT, "")
    if text.isascii() and text.isdigit() and len(text) <= 4:
        return int(text)
    return offered + len(failed_gpus(annotations))


def usable(
    labels: Mapping[str, str], annotations: Mapping[str, str], allocatable: dict[str, int]
) -> dict[str, int]:
    """The allocatable without GPUs that failed a moment ago, where GPUs have numbers."""
    failed = failed_gpus(annotations)
    offered = allocatable.get(names.GPU, 0)
    if not failed or not offered or labels.get(names.NUMBERED) != "numbered":
        return allocatable
    sound = max(0, index_count(labels, annotations, offered) - len(failed))
    return allocatable if offered <= sound else {**allocatable, names.GPU: sound}
