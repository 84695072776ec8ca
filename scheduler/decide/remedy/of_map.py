"""A request instead of a map: the scheduler then chooses the node and the devices."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.decide.remedy.edit import Edit, EditKind, Trial, request
from scheduler.decide.remedy.rejected import RejectedPod
from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import MapError, parse
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_parts import Role
from scheduler.model.pods.pod_variants import with_containers

REMOVE = Edit(
    kind=EditKind.ANNOTATE, field=well_known.MAP, text=f"remove the annotation {well_known.MAP}"
)


def without_map(rejected: RejectedPod) -> Iterator[Trial]:
    """The pod without its map; it requests as many GPUs as its line names, if it requests none."""
    pod = rejected.pod
    if pod.map_text is None:
        return
    count = 0 if pod.gpu_requests else _devices_of(pod)
    if not count and not pod.gpu_requests:
        return  # it would start without a GPU
    annotations = {key: text for key, text in pod.annotations.items() if key != well_known.MAP}
    # The webhook wrote the environment from the map.
    containers = tuple(
        msgspec.structs.replace(one, cuda_literal=None, cuda_key=None) for one in pod.containers
    )
    if count:
        at = next((i for i, one in enumerate(containers) if one.role is Role.APP), None)
        if at is None:
            return
        asking = {**containers[at].devices, well_known.GPU: count}
        first = msgspec.structs.replace(containers[at], devices=asking)
        containers = (*containers[:at], first, *containers[at + 1 :])
    plain = with_containers(msgspec.structs.replace(pod, annotations=annotations), containers)
    yield Trial((REMOVE, request(well_known.GPU, count)) if count else (REMOVE,), plain)


def _devices_of(pod: Pod) -> int:
    """How many devices the pod's line names, or the first line if its index is unknown."""
    try:
        found = parse(pod.map_text or "")
    except MapError:
        return 0
    index = pod.index(len(found.entries))
    entry = found.entries.get(index) if isinstance(index, int) else None
    return len((entry or found.entries[found.indexes[0]]).devices)
