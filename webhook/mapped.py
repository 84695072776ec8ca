"""What a pod's map means for it at admission, before anybody is asked.

Reads the map, the pod's index and its requests together and refuses what can never work, with
the sentence for its author. Whether the node is there, and whose turn it is, is not known here.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import gpumap, names
from scheduler.model.gpumap import GpuMap, MapEntry, shown
from scheduler.model.limits import POD_DEVICES_MAX
from scheduler.model.podindex import IndexRule, index_of
from scheduler.model.shares import CudaMode, Want, devices_needed
from webhook import rawpod
from webhook.outcome import Refused
from webhook.rawpod import RawPod, Slot

_MODES: Final = {mode.value: mode for mode in CudaMode}
_ANNOTATIONS_BYTES_MAX: Final = 262_144
#: Room for what the Binding and later controllers add: without it every status write of the
#: bound pod would be refused, for good.
_ANNOTATIONS_BYTES_SPARE: Final = 4096


class Mapped(msgspec.Struct, frozen=True, kw_only=True):
    """A mapped pod: its map, its index, and its entry where the index is known and has one.

    ``wants`` are the requests of the containers in ``requesting``, in order of declaration.
    """

    gpu_map: GpuMap
    index: int | IndexRule
    entry: MapEntry | None
    mode: CudaMode
    requesting: tuple[Slot, ...]
    wants: tuple[Want, ...]

    @property
    def candidates(self) -> tuple[MapEntry, ...]:
        """The entries that the pod may get."""
        return (self.entry,) if self.entry else tuple(self.gpu_map.entries.values())


def read(pod: RawPod) -> Mapped | None:
    """The pod's map, or None for a pod without one; raises for a bad or an impossible map."""
    given = rawpod.annotations_of(pod)
    mode = _mode(given.get(names.CUDA_MODE))
    map_text = given.get(names.MAP)
    if map_text is None:
        return None
    try:
        gpu_map = gpumap.parse(map_text)
    except gpumap.MapError as error:
        raise Refused(str(error)) from error
    index = index_of(
        name=rawpod.text(rawpod.metadata(pod).get("name")),
        owner=rawpod.controller(pod),
        labels=rawpod.labels_of(pod),
        annotations=given,
        lines=len(gpu_map.indexes),
    )
    requests = [(slot, _gpus(slot)) for slot in rawpod.slots(pod)]
    _check_bound(requests)
    requesting = tuple(slot for slot, count in requests if count)
    mapped = Mapped(
        gpu_map=gpu_map,
        index=index,
        entry=gpu_map.entries.get(index) if isinstance(index, int) else None,
        mode=mode,
        requesting=requesting,
        wants=tuple(Want(count, slot.ends_early) for slot, count in requests if count),
    )
    _check_counts(mapped)
    return mapped


def _mode(text: str | None) -> CudaMode:
    mode = CudaMode.AUTO if text is None else _MODES.get(text)
    if mode is None:
        known = ", ".join(m for m in _MODES if m != CudaMode.UUID.value)
        raise Refused(f'{names.CUDA_MODE}: "{shown(text or "")}" is not a mode, use one of {known}')
    if mode is CudaMode.UUID:
        raise Refused(f"{names.CUDA_MODE}: uuid is not implemented yet, use auto, index or local")
    return mode


def _gpus(slot: Slot) -> int:
    written = rawpod.asked(slot.container, names.GPU)
    return rawpod.count(written) or 0


def _check_bound(requests: list[tuple[Slot, int]]) -> None:
    """Refuse a pod that asks for more devices than are read: an entry would be written for each."""
    total = sum(count for _, count in requests)
    if total > POD_DEVICES_MAX:
        raise Refused(
            f"the pod's containers request {total} {names.GPU}, at most {POD_DEVICES_MAX} are read"
        )


def _check_counts(mapped: Mapped) -> None:
    """Refuse a pod whose GPU requests and map lines can never agree."""
    if not mapped.wants:
        return
    # Pods without an index of their own take any line, so every line has to fit them.
    if mapped.entry is None and mapped.index is not IndexRule.ASSIGNED:
        return
    needed = devices_needed(mapped.wants)
    for entry in mapped.candidates:
        if len(entry.devices) != needed:
            raise Refused(
                f"{names.MAP} index {entry.index}: the line names {len(entry.devices)} device(s), "
                f"the pod's containers request {needed} {names.GPU}"
            )


def check_annotations_size(pod: RawPod) -> None:
    """Refuse a pod whose annotations leave no room for ours."""
    size = sum(
        len(part.encode("utf-8", "surrogatepass"))
        for item in rawpod.annotations_of(pod).items()
        for part in item
    )
    if size + _ANNOTATIONS_BYTES_SPARE > _ANNOTATIONS_BYTES_MAX:
        raise Refused(
            f"the pod's annotations take {size} bytes, the API server allows "
            f"{_ANNOTATIONS_BYTES_MAX} and {_ANNOTATIONS_BYTES_SPARE} of them are needed for the "
            "scheduler's own"
        )
