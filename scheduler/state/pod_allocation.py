"""What one placed pod holds of its node's devices, read from what the Binding wrote on it.

A map counts where our Binding wrote the devices, or where the pod's namespace may use maps. Any
author can give a pod a node and a map, or a running pod a map, and that alone takes no device.

Must never: believe a number or a place on a pod that is not ours; anybody could write those.
"""

from __future__ import annotations

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.device import Devices, MigPlacement, parse_devices
from scheduler.model.pods.pod import Pod


class PodAllocation(msgspec.Struct, frozen=True, gc=False):
    """A pod's devices on its node.

    ``numbers`` are GPU indexes; ``unknown`` is how many GPUs it holds whose index is not
    known; ``is_mapped`` and ``sharing`` tell with whom it may hold a device together;
    ``has_request`` is whether the plugin's resource accounts for them already. ``spots`` are
    MIG instances where we chose them.
    """

    numbers: tuple[int, ...] = ()
    unknown: int = 0
    is_mapped: bool = False
    has_request: bool = False
    sharing: str = ""
    spots: tuple[MigPlacement, ...] = ()


def holding_of(
    pod: Pod, devices: Devices | None, scheduler_name: str, *, may_map: bool
) -> PodAllocation:
    """What a placed pod holds; ``devices`` is our own choice while it is only assumed.

    ``may_map`` is whether the pod's namespace may use maps now; what our Binding wrote counts
    whatever the namespace says later. Numbers are believed only from pods of our scheduler:
    anybody could write the annotation on another pod. Unreadable means unknown, never free.
    """
    if pod.unread.requests:  # no GPU there is known to be free
        return PodAllocation(unknown=1, has_request=True, sharing=pod.sharing)
    requested = pod.requests.get(well_known.GPU, 0)
    is_ours = pod.scheduler_name == scheduler_name
    text = pod.annotations.get(well_known.DEVICES) if is_ours else None
    is_given = may_map or devices is not None or text is not None
    is_mapped = is_ours and is_given and pod.map_text is not None
    if devices is None and text is not None:
        devices = _credible(pod, parse_devices(text))
    spots = devices.spots if devices is not None else ()
    # Numbers that do not match the request are no answer: the plugin gave something else.
    if devices is not None and (not requested or len(devices.numbers) == requested):
        return PodAllocation(devices.numbers, 0, is_mapped, requested > 0, pod.sharing, spots)
    is_past_plugin = (is_mapped or text is not None) and not pod.gpu_requests
    unknown = requested or int(is_past_plugin)
    return PodAllocation((), unknown, is_mapped, requested > 0, pod.sharing, spots)


def holds_alike(before: Pod, after: Pod) -> bool:
    """Whether a placed pod holds what it held, as far as the pod itself tells."""
    return (
        before.requests == after.requests
        and before.annotations == after.annotations
        and before.labels == after.labels
        and before.owner == after.owner
        and before.host_ports == after.host_ports
        and before.unread == after.unread
        and before.has_claims == after.has_claims
    )


def _credible(pod: Pod, devices: Devices | None) -> Devices | None:
    """What is written, unless it is about instances that the pod never asked for."""
    if devices is None or not devices.spots or any(map(well_known.is_mig, pod.gpu_requests)):
        return devices
    return None
