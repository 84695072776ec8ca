"""The devices of one placed pod, as far as API objects show them.

The allocation of a pod is read from the annotations of its Binding. A map counts if our Binding
wrote the devices, or if the pod's namespace may use maps. Any author can set a node and a map on a
pod, or a map on a running pod; this alone allocates no device.

Must never: use an index or a place on a pod of another scheduler; any user could write those.
"""

from __future__ import annotations

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.device import Devices, MigPlacement, parse_devices
from scheduler.model.pods.pod import Pod


class PodAllocation(msgspec.Struct, frozen=True, gc=False):
    """A pod's devices on its node.

    ``numbers`` are GPU indexes; ``unknown`` is the number of GPUs with unknown indexes;
    ``is_mapped`` and ``sharing`` say which pods may share a device with it. ``has_request`` says
    whether the plugin's resource counts the GPUs already. ``mig_placements`` are the places of MIG
    instances that the scheduler chose.
    """

    numbers: tuple[int, ...] = ()
    unknown: int = 0
    is_mapped: bool = False
    has_request: bool = False
    sharing: str = ""
    mig_placements: tuple[MigPlacement, ...] = ()

    @property
    def has_gpus(self) -> bool:
        """Whether it has GPUs, or may have some."""
        return bool(self.is_mapped or self.numbers or self.unknown)


def allocation_of(
    pod: Pod, devices: Devices | None, scheduler_name: str, *, may_map: bool
) -> PodAllocation:
    """The allocation of a placed pod; ``devices`` is the own choice while the pod is only assumed.

    ``may_map`` says whether the pod's namespace may use maps now; annotations of our Binding count
    whatever the namespace says later. Indexes count only on pods of this scheduler: any user could
    write the annotation on another pod. Unreadable means unknown, never free.
    """
    if pod.unread.requests:  # any GPU may be held by the pod
        return PodAllocation(unknown=1, has_request=True, sharing=pod.sharing)
    requested = pod.requests.get(well_known.GPU, 0)
    is_ours = pod.scheduler_name == scheduler_name
    text = pod.annotations.get(well_known.DEVICES) if is_ours else None
    is_given = may_map or devices is not None or text is not None
    is_mapped = is_ours and is_given and pod.map_text is not None
    if devices is None and text is not None:
        devices = _credible(pod, parse_devices(text))
    mig_placements = devices.mig_placements if devices is not None else ()
    # Indexes that do not match the request are ignored: the plugin assigned something else.
    if devices is not None and (not requested or len(devices.numbers) == requested):
        return PodAllocation(
            devices.numbers, 0, is_mapped, requested > 0, pod.sharing, mig_placements
        )
    is_past_plugin = (is_mapped or text is not None) and not pod.gpu_requests
    unknown = requested or int(is_past_plugin)
    return PodAllocation((), unknown, is_mapped, requested > 0, pod.sharing, mig_placements)


def has_same_allocation(before: Pod, after: Pod) -> bool:
    """Whether the allocation of a placed pod is unchanged, as far as the pod itself shows."""
    return (
        before.requests == after.requests
        and before.score_extra == after.score_extra
        and before.annotations == after.annotations
        and before.labels == after.labels
        and before.owner == after.owner
        and before.host_ports == after.host_ports
        and before.unread == after.unread
        and bool(before.resource_claims) == bool(after.resource_claims)
    )


def _credible(pod: Pod, devices: Devices | None) -> Devices | None:
    """The written devices, unless they contain instances that the pod did not request."""
    if (
        devices is None
        or not devices.mig_placements
        or any(map(well_known.is_mig, pod.gpu_requests))
    ):
        return devices
    return None
