"""What a placement tells the pod's author in events: (reason, text) pairs."""

from __future__ import annotations

from scheduler.decide import gpu_map, webhook_mutation
from scheduler.model import well_known
from scheduler.model.cuda_env import CudaMode
from scheduler.model.device import Devices, join_numbers
from scheduler.model.pod import Pod
from scheduler.state.node_info import NodeInfo


def map_notes(
    pod: Pod, devices: Devices, value: str | None, node_info: NodeInfo
) -> tuple[tuple[str, str], ...]:
    """What the author of a map has to know of its placement on this node."""
    if not devices.numbers:
        text = "gpu-scheduling-map chose the node; which GPU is the kubelet's choice there"
        return (("MapHonouredNodeOnly", text), *_index_notes(pod, value))
    notes: tuple[tuple[str, str], ...] = ()
    assert node_info.node is not None
    if not pod.gpu_requests and not node_info.node.is_numbered:
        text = (
            f"no container requests a GPU, so {node_info.node.name} gives the pod none: its"
            f" containers see GPUs {join_numbers(devices.numbers)} only where the runtime shows"
            " all GPUs (NVIDIA's runtime is the default and NVIDIA_VISIBLE_DEVICES is set), and no"
            " GPU where the device plugin uses CDI"
        )
        notes = (("MapWithoutRequest", text),)
    if webhook_mutation.is_untold(pod, value):
        text = f"CUDA_VISIBLE_DEVICES={value} was not set: the pod did not pass the webhook"
        notes += (("EnvironmentNotSet", text),)
    return notes


def _index_notes(pod: Pod, value: str | None) -> tuple[tuple[str, str], ...]:
    """The map's numbers, told to a container that counts the kubelet's GPUs from 0."""
    if value is None or gpu_map.cuda_mode(pod) is not CudaMode.INDEX:
        return ()
    return (
        (
            "EnvironmentMayHideGpus",
            f"{well_known.CUDA_MODE}: index sets CUDA_VISIBLE_DEVICES={value[:80]} although the"
            " kubelet picks the GPUs here and a container counts its own from 0; write local, or"
            " leave the annotation out",
        ),
    )


def soft_notes(pod: Pod) -> tuple[tuple[str, str], ...]:
    """What of the pod's wishes is not weighed."""
    if not pod.soft:
        return ()
    return (("PreferenceIgnored", f"not considered: {' and '.join(pod.soft)}"),)
