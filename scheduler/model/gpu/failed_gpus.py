"""GPUs that failed: they exist, and must not be used.

The program that monitors a node's devices sets an annotation
(``gpu-scheduler.io/unusable-devices``) and lowers allocatable. The two writes are not simultaneous,
so this module corrects allocatable by the annotation.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import shown
from scheduler.model.integer_text import whole
from scheduler.model.limits import NODE_GPUS_MAX


def failed_gpus(annotations: Mapping[str, str]) -> frozenset[int]:
    """The indexes of failed GPUs, as far as they are valid (see ``flaw``)."""
    return _read(annotations.get(well_known.UNUSABLE_DEVICES, ""))[0]


def flaw(annotations: Mapping[str, str]) -> str:
    """The problem of the annotation; empty if it is valid.

    With an invalid annotation the failed GPUs are unknown, so none of the node's may be used.
    """
    return _read(annotations.get(well_known.UNUSABLE_DEVICES, ""))[1]


@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[frozenset[int], str]:
    words = text.split(",", NODE_GPUS_MAX)
    if len(words) > NODE_GPUS_MAX:
        return frozenset(), f"names more than {NODE_GPUS_MAX} GPUs"
    found: set[int] = set()
    for word in filter(None, map(str.strip, words)):
        index = whole(word, NODE_GPUS_MAX - 1)
        if index is None:
            what = f"{shown(word, 40)} is no index from 0 to {NODE_GPUS_MAX - 1}"
            return frozenset(), f"{what}; write for example 1,3"
        found.add(index)
    return frozenset(found), ""


def index_count(labels: Mapping[str, str], annotations: Mapping[str, str], offered: int) -> int:
    """The number of GPU indexes on an index-assigned node, including failed GPUs."""
    count = whole(labels.get(well_known.GPU_COUNT, ""), NODE_GPUS_MAX)
    return offered + len(failed_gpus(annotations)) if count is None else count


def usable(
    labels: Mapping[str, str], annotations: Mapping[str, str], allocatable: dict[str, int]
) -> dict[str, int]:
    """Allocatable without recently failed GPUs, on index-assigned nodes."""
    failed = failed_gpus(annotations)
    offered = allocatable.get(well_known.GPU, 0)
    if not failed or not offered or labels.get(well_known.NUMBERED) != "numbered":
        return allocatable
    sound = max(0, index_count(labels, annotations, offered) - len(failed))
    return allocatable if offered <= sound else {**allocatable, well_known.GPU: sound}
