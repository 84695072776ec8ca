"""Memory of a share: a device that several pods share has only a part of its memory for each.

The label ``nvidia.com/gpu.memory`` and the name of a MIG profile tell the memory of the whole
device. Time-slicing and MPS offer it several times (label ``<resource>.replicas``), and the device
plugin keeps nobody from using all of it. So an equal part is what a pod can count on.
"""

from __future__ import annotations

from functools import lru_cache

from scheduler.model import gpu_memory, well_known
from scheduler.model.mig.node_geometry import memory_mib, replicas
from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.node_info import NodeInfo


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """Reject a node on which a share of a device has less memory than the pod wants."""
    node = node_info.node
    assert node is not None
    for resource, amount in pod.gpu_memory.items():
        shares = replicas(node.labels, resource)
        if shares > 1:
            need = gpu_memory.least_mib(amount)
            have = gpu_memory.of_a_share(resource, memory_mib(node.labels), shares)
            if have < need:
                return _too_small(resource, shares, have, need)
    return ()


@lru_cache(maxsize=1024)
def _too_small(resource: str, shares: int, have: int, need: int) -> tuple[Reason, ...]:
    text = (
        f"node(s) where {resource} is one of {shares} shares of a GPU with {have} MiB for each"
        f" ({well_known.WANTED_MEMORY} needs {need} MiB)"
    )
    return (Reason(code=ReasonCode.GPU_MEMORY_TOO_SMALL, text=text, resolvable=False),)
