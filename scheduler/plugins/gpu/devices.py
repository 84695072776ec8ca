"""Individual GPUs (design 5.5): which component assigns them on a node, and whether the assignment
is known.

Filter applies to every pod that requests GPUs; ``plugins/gpu/gpu_map`` checks the devices of a
map's line. Reserve assigns indexes on index-assigned nodes, and a count on others.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.decision import Placement
from scheduler.framework.plugin import FITS, NodeFilter, Plugin, Reasons, Refuse, ReserveContext
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.gpu.cuda_env import CudaMode, cuda_mode, environment, keys_offered
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.gpu.near_gpus import nearest
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.plugins.gpu.codes import (
    DEVICE_ASSIGNMENT_UNKNOWN,
    KUBELET_ASSIGNS_DEVICES,
    NO_DEVICE_FOR_ENV,
    NOTHING_TO_READ,
    NUMBERS_UNKNOWN,
)
from scheduler.state.mig.dynamic_gpus import canonical
from scheduler.state.node_info import NodeInfo

KUBELET_PICKS: Final = Reason(
    code=KUBELET_ASSIGNS_DEVICES,
    text="node(s) with kubelet-assigned GPUs run a gpu-scheduling-map pod without a GPU request",
)


def pre_filter(_view: View, pod: Pod, _settings: Settings) -> Refuse | None:
    """Reject a pod that reads its devices from an annotation that no Binding would write."""
    if not pod.reads_devices:
        return None
    given = pod.map_text is not None or pod.requests.get(well_known.GPU, 0) > 0
    unread = pod.reads_devices - (keys_offered(pod) if given else frozenset())
    if not unread:
        return None
    return Refuse(
        Reason(
            code=NO_DEVICE_FOR_ENV,
            text=f"a container reads its devices from the annotation {min(unread)[:80]},"
            " which would stay empty",
            resolvable=False,
        )
    )


def check(pod: Pod, node_info: NodeInfo) -> Reasons:
    """Reject a node on which another pod may hold this pod's GPUs already."""
    node = node_info.node
    assert node is not None
    if not pod.gpu_requests:
        return FITS
    if not _assigns_indexes(node_info):
        if pod.reads_devices and pod.map_text is None:
            return (NOTHING_TO_READ,)
        return (KUBELET_PICKS,) if node_info.mapped_past_plugin else FITS
    # The GPU of a future instance is unknown, and it may be the mapped one.
    if node_info.mapped_past_plugin and any(map(well_known.is_mig, pod.gpu_requests)):
        return (KUBELET_PICKS,)
    if pod.map_text is None and pod.requests.get(well_known.GPU, 0) > 0 and node_info.usage.unknown:
        return (NUMBERS_UNKNOWN,)
    return FITS


def reserve(context: ReserveContext, placement: Placement) -> Placement:
    """The devices on the chosen node, and the environment of the containers."""
    pod = placement.pod
    chosen = placement.devices
    devices = assigned(pod, context.entry, context.node_info, chosen.mig_placements)
    if chosen.claimed:
        devices = msgspec.structs.replace(devices, claimed=chosen.claimed)
    value, shares = environment_on(pod, devices, context.entry, context.node_info)
    return msgspec.structs.replace(
        placement, devices=devices, cuda_visible_devices=value, shares=shares
    )


def assigned(
    pod: Pod,
    entry: MapEntry | None,
    node_info: NodeInfo,
    mig_placements: tuple[MigPlacement, ...] = (),
) -> Devices:
    """The devices of the map's line, or free indexes near each other, or a count for the kubelet.

    ``mig_placements`` are MIG instances with a chosen place; their profiles are not counted.
    """
    node = node_info.node
    assert node is not None
    numbers: tuple[int, ...] = ()
    counts = dict(pod.gpu_requests)
    if entry is not None and node_info.has_indexes_for(pod):
        numbers = entry.devices
        counts.pop(well_known.GPU, None)
    elif entry is None and _assigns_indexes(node_info) and well_known.GPU in counts:
        free, count = node_info.free_indexes(), counts.pop(well_known.GPU)
        numbers = nearest(free, count, node_info.gpu_places)
        assert len(numbers) == pod.requests[well_known.GPU], "free count and free numbers disagree"
    given = [(node.unit(name), n) for name, n in sorted(counts.items())]
    if mig_placements:
        profiles = {mig_placement.profile for mig_placement in mig_placements}
        given = [one for one in given if canonical(one[0]) not in profiles]
    return Devices(numbers, tuple(given), mig_placements)


def _assigns_indexes(node_info: NodeInfo) -> bool:
    """Whether the scheduler chooses GPUs by index here; a claim names a device of DRA."""
    assert node_info.node is not None
    return node_info.node.is_index_assigned and not node_info.is_served_by_dra(well_known.GPU)


def environment_on(
    pod: Pod, devices: Devices, entry: MapEntry | None, node_info: NodeInfo
) -> tuple[str | None, tuple[str, ...]]:
    """The environment of a pod with these devices (``model/gpu/cuda_env``).

    A container with devices of a claim counts them from 0, so a value is only for those that read
    one.
    """
    if entry is None or node_info.dra_gpus is None or cuda_mode(pod) is CudaMode.INDEX:
        return environment(pod, devices, entry)
    return environment(pod, devices, entry, CudaMode.LOCAL) if pod.reads_devices else (None, ())


PLUGIN: Final = Plugin(
    name="GPUDevices",
    reads=(pod_reads.REQUESTS, pod_reads.DEVICES_READ, pod_reads.MAP),
    codes=(KUBELET_ASSIGNS_DEVICES, DEVICE_ASSIGNMENT_UNKNOWN, NO_DEVICE_FOR_ENV),
    pre_filter=pre_filter,
    filters=(NodeFilter(check),),
    reserve=reserve,
)
