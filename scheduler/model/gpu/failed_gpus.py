"""GPUs that failed: they exist, and nobody may use them.

Who looks after a node's devices says so by an annotation (``gpu-scheduler.io/unusable-devices``),
and lowers what the node offers. Both do not arrive in one moment, so what is offered is read here
as if they did.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import shown
from scheduler.model.integer_text import whole
from scheduler.model.limits import NODE_GPUS_MAX


def failed_gpus(annotations: Mapping[str, str]) -> frozenset[int]:
    """Their indexes, as far as they can be read (see ``flaw``)."""
    return _read(annotations.get(well_known.UNUSABLE_DEVICES, ""))[0]


def flaw(annotations: Mapping[str, str]) -> str:
    """What is wrong with the list of them; empty where nothing is.

    Which GPUs failed is not known then, so that none of the node's may be used.
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
    """How many indexes there are on a node that numbers its GPUs, the failed ones among them."""
    count = whole(labels.get(well_known.GPU_COUNT, ""), NODE_GPUS_MAX)
    return offered + len(failed_gpus(annotations)) if count is None else count


def usable(
    labels: Mapping[str, str], annotations: Mapping[str, str], allocatable: dict[str, int]
) -> dict[str, int]:
    """The allocatable without GPUs that failed a moment ago, where GPUs have numbers."""
    failed = failed_gpus(annotations)
    offered = allocatable.get(well_known.GPU, 0)
    if not failed or not offered or labels.get(well_known.NUMBERED) != "numbered":
        return allocatable
    sound = max(0, index_count(labels, annotations, offered) - len(failed))
    return allocatable if offered <= sound else {**allocatable, well_known.GPU: sound}
