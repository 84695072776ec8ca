"""gpu-scheduling-map: the annotation names the pod's node and devices (design 5.1 to 5.3).

A map restricts the choice; it never overrides a filter. PreFilter: the lines that the pod may use.
Filter: all filters at the line's node, then the line's devices (``map_choice``). Reserve: the index
and notes for the map's author; GPUDevices assigns the devices.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.decision import Placement
from scheduler.framework.plugin import FITS, NamedNodes, Plugin, Reasons, Refuse, ReserveContext
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.gpu.cuda_env import CudaMode, cuda_mode, lacks_environment
from scheduler.model.gpu.device import join_numbers
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_index import IndexRule
from scheduler.model.reasons.reason import Reason
from scheduler.plugins.gpu import (
    codes,
    map_choice,
    map_devices,
    map_dra_devices,
    map_lines,
)

Notes = tuple[tuple[str, str], ...]


def pre_filter(view: View, pod: Pod, settings: Settings) -> Refuse | NamedNodes | None:
    """The nodes that the map names for the pod, or the reason why there are none."""
    if pod.map_text is None:
        return None
    found = map_lines.lines(pod, view, settings.maps_allow)
    return Refuse(found) if isinstance(found, Reason) else map_choice.NodesOfMap(view, pod, found)


def queueing_hint(view: View, pod: Pod, settings: Settings) -> Reasons | None:
    """The reasons of a pod whose own line still names no node; a pod with several lines is
    retried.
    """
    if pod.map_text is None:
        return None
    if pod.index() is IndexRule.ASSIGNED:
        return FITS  # trying the lines costs as much as a decision
    found = map_lines.lines(pod, view, settings.maps_allow)
    if isinstance(found, Reason):
        return (found,)
    resolved = map_devices.target(pod, found.entries[0], view) if found.is_own else None
    return (resolved,) if isinstance(resolved, Reason) else FITS


def reserve(context: ReserveContext, placement: Placement) -> Placement:
    """The map's index, and notes for its author."""
    if context.entry is None:
        return placement
    notes = _notes(context, placement) + placement.notes
    return msgspec.structs.replace(placement, index=context.entry.index, notes=notes)


def _notes(context: ReserveContext, placement: Placement) -> Notes:
    pod, value = placement.pod, placement.cuda_visible_devices
    node = context.node_info.node
    assert node is not None
    if not placement.devices.numbers:
        is_claimed = placement.claims is not None and placement.claims.extended is not None
        chosen = "that of the pod's ResourceClaim" if is_claimed else "the kubelet's choice there"
        text = f"gpu-scheduling-map chose the node; which GPU is {chosen}"
        return (("MapHonouredNodeOnly", text), *_index_notes(pod, value))
    if context.node_info.dra_gpus is not None:
        return _index_notes(pod, value)  # the devices of its claims
    notes: Notes = ()
    if not pod.gpu_requests and not node.is_index_assigned:
        text = (
            f"no container requests a GPU, so {node.name} gives the pod none: its"
            f" containers see GPUs {join_numbers(placement.devices.numbers)} only where the runtime"
            " shows all GPUs (NVIDIA's runtime is the default and NVIDIA_VISIBLE_DEVICES is set),"
            " and no GPU where the device plugin uses CDI"
        )
        notes = (("MapWithoutRequest", text),)
    if lacks_environment(pod, value):
        text = f"CUDA_VISIBLE_DEVICES={value} was not set: the pod did not pass the webhook"
        notes += (("EnvironmentNotSet", text),)
    return notes


def _index_notes(pod: Pod, value: str | None) -> Notes:
    """A note if a container gets GPU indexes of the map while it counts its own GPUs from 0."""
    if value is None or cuda_mode(pod) is not CudaMode.INDEX:
        return ()
    return (
        (
            "EnvironmentMayHideGpus",
            f"{well_known.CUDA_MODE}: index sets CUDA_VISIBLE_DEVICES={value[:80]} although a"
            " container counts its own GPUs from 0 on this node; write local, or leave the"
            " annotation out",
        ),
    )


PLUGIN: Final = Plugin(
    name="GPUMap",
    skips_plain=True,
    reads=(pod_reads.MAP, pod_reads.REQUESTS, pod_reads.DEVICES_READ),
    codes=(
        codes.DEVICE_HELD,
        codes.DEVICE_NOT_FOUND,
        codes.DEVICE_FAILED,
        map_dra_devices.DEVICE_INDEX_UNKNOWN,
        map_dra_devices.MAP_WITHOUT_CLAIM,
        map_choice.NOT_IN_MAP,
        map_lines.MAP_INVALID,
        map_lines.MAP_NOT_ALLOWED,
        map_devices.MAP_NODE_UNKNOWN,
        map_devices.MAP_NODE_AMBIGUOUS,
        map_devices.MAP_CHANGED,
        map_lines.INDEX_UNKNOWN,
        map_lines.INDEX_NOT_IN_MAP,
        map_lines.INDEX_HELD,
        map_lines.INDEX_HELD_BY_OLDER_REVISION,
        map_lines.NO_FREE_MAP_LINE,
        map_devices.MAP_REQUEST_MISMATCH,
    ),
    queueing_hint=queueing_hint,
    pre_filter=pre_filter,
    reserve=reserve,
)
