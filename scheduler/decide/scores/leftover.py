"""Best fit: what would be left on the node once the pod is there, least first.

A pod without devices goes where no devices are, so that it does not take the cpu that
somebody's GPU needs.
"""

from __future__ import annotations

from scheduler.model import well_known
from scheduler.model.pod import Pod
from scheduler.state.node_info import NodeInfo


def measure(pod: Pod, node_info: NodeInfo) -> tuple[int, int, int]:
    """Leftovers: of the requested devices, of other devices, of cpu (milli)."""
    node = node_info.node
    assert node is not None
    wanted = others = 0
    requested = pod.gpu_requests
    cpu = node_info.free(well_known.CPU) - pod.requests.get(well_known.CPU, 0)
    if node_info.is_dynamic and requested and node_info.gpus is not None:
        # Instances to order are no fixed number: what is left is memory slices.
        return (node_info.gpus.free_slices, 0, cpu)
    for resource in node.devices:
        left = node_info.free(resource) - requested.get(resource, 0)
        if resource in requested:
            wanted += left
        else:
            others += left
    return (wanted, others, cpu)
