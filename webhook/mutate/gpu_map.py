"""The map of a pod at admission, before the scheduler is queried.

Reads the map, the pod's index and its requests, and rejects combinations that can never be placed,
with a message. The state of nodes and of other pods is not known here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu import gpu_map as model_gpu_map
from scheduler.model.gpu.cuda_env import ContainerGpus, CudaMode, devices_needed
from scheduler.model.gpu.gpu_map import GpuMap, MapEntry, shown
from scheduler.model.limits import POD_DEVICES_MAX
from scheduler.model.pods.pod_index import IndexRule, index_of
from webhook.mutate import raw_pod
from webhook.mutate.pod_draft import Refused
from webhook.mutate.raw_pod import ContainerRef, RawPod

_MODES: Final = {mode.value: mode for mode in CudaMode}
_ANNOTATIONS_BYTES_MAX: Final = 262_144
#: Room for the annotations of the Binding and of later controllers: without it the API server would
#: reject every status write of the bound pod.
_ANNOTATIONS_BYTES_SPARE: Final = 4096


class MappedPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod with a map: the map, the pod's index, and the line of the index if there is one.

    ``wants`` are the requests of the containers in ``requesting``, in order of declaration.
    """

    gpu_map: GpuMap
    index: int | IndexRule
    entry: MapEntry | None
    mode: CudaMode
    requesting: tuple[ContainerRef, ...]
    wants: tuple[ContainerGpus, ...]

    @property
    def candidates(self) -> tuple[MapEntry, ...]:
        """The entries that the pod may use."""
        return (self.entry,) if self.entry else tuple(self.gpu_map.entries.values())


def read(pod: RawPod) -> MappedPod | None:
    """The pod's map, or None; raises a denial for an invalid map."""
    given = raw_pod.annotations_of(pod)
    mode = _mode(given.get(well_known.CUDA_MODE))
    map_text = given.get(well_known.MAP)
    if map_text is None:
        return None
    try:
        gpu_map = model_gpu_map.parse(map_text)
    except model_gpu_map.MapError as error:
        raise Refused(str(error)) from error
    index = index_of(
        name=raw_pod.text(raw_pod.metadata(pod).get("name")),
        owner=raw_pod.controller(pod),
        labels=raw_pod.labels_of(pod),
        annotations=given,
        lines=len(gpu_map.indexes),
    )
    requests = [(slot, _gpus(slot)) for slot in raw_pod.slots(pod)]
    _check_bound(requests)
    requesting = tuple(slot for slot, count in requests if count)
    mapped = MappedPod(
        gpu_map=gpu_map,
        index=index,
        entry=gpu_map.entries.get(index) if isinstance(index, int) else None,
        mode=mode,
        requesting=requesting,
        wants=tuple(ContainerGpus(count, slot.ends_early) for slot, count in requests if count),
    )
    _check_counts(mapped)
    return mapped


def _mode(text: str | None) -> CudaMode:
    mode = CudaMode.AUTO if text is None else _MODES.get(text)
    if mode is None:
        known = ", ".join(m for m in _MODES if m != CudaMode.UUID.value)
        raise Refused(
            f'{well_known.CUDA_MODE}: "{shown(text or "")}" is not a mode, use one of {known}'
        )
    if mode is CudaMode.UUID:
        raise Refused(
            f"{well_known.CUDA_MODE}: uuid is not implemented yet, use auto, index or local"
        )
    return mode


def _gpus(slot: ContainerRef) -> int:
    written = raw_pod.requested(slot.container, well_known.GPU)
    return raw_pod.count(written) or 0


def _check_bound(requests: list[tuple[ContainerRef, int]]) -> None:
    """Reject a pod that requests more devices than the limit."""
    total = sum(count for _, count in requests)
    if total > POD_DEVICES_MAX:
        raise Refused(
            f"the pod's containers request {total} {well_known.GPU}, at most {POD_DEVICES_MAX} "
            "are read"
        )


def _check_counts(mapped: MappedPod) -> None:
    """Reject a pod whose GPU requests do not match its map lines."""
    if not mapped.wants:
        return
    # Pods without an index of their own may use any line, so every line has to fit them.
    if mapped.entry is None and mapped.index is not IndexRule.ASSIGNED:
        return
    needed = devices_needed(mapped.wants)
    for entry in mapped.candidates:
        if len(entry.devices) != needed:
            raise Refused(
                f"{well_known.MAP} index {entry.index}: the line names {len(entry.devices)} "
                f"device(s), the pod's containers request {needed} {well_known.GPU}"
            )


def check_annotations_size(pod: RawPod) -> None:
    """Reject a pod whose annotations leave no room for those of the scheduler."""
    size = sum(
        len(part.encode("utf-8", "surrogatepass"))
        for item in raw_pod.annotations_of(pod).items()
        for part in item
    )
    if size + _ANNOTATIONS_BYTES_SPARE > _ANNOTATIONS_BYTES_MAX:
        raise Refused(
            f"the pod's annotations take {size} bytes, the API server allows "
            f"{_ANNOTATIONS_BYTES_MAX} and {_ANNOTATIONS_BYTES_SPARE} of them are needed for the "
            "scheduler's own"
        )
