"""Best fit: what would be left on the node once the pod is there, least first.

A pod without devices goes where no devices are, so that it does not take the cpu that
somebody's GPU needs.
"""

from __future__ import annotations

from scheduler.model import names
from scheduler.model.pod import Pod
from scheduler.state.ledger import NodeBooks


def measure(pod: Pod, books: NodeBooks) -> tuple[int, int, int]:
    """Leftovers: of the requested devices, of other devices, of cpu (milli)."""
    node = books.node
    assert node is not None
    wanted = others = 0
    requested = pod.gpu_requests
    cpu = books.free(names.CPU) - pod.requests.get(names.CPU, 0)
    if books.is_dynamic and requested and books.gpus is not None:
        # Instances to order are no fixed number: what is left is memory slices.
        return (books.gpus.free_slices, 0, cpu)
    for resource in node.devices:
        left = books.free(resource) - requested.get(resource, 0)
        if resource in requested:
            wanted += left
        else:
            others += left
    return (wanted, others, cpu)
