"""Files about pods on reserved GPUs, as Run:ai's agents read them on a node. Pure.

    proc/pod/<uid>/metrics/gpu/<index>/utilization.sm     per cent
    proc/pod/<uid>/metrics/gpu/<index>/memory.allocated   bytes

A pod of the reservations' namespace reserves a GPU, and pods that do not hold it use it.
"""

from __future__ import annotations

from typing import Final

from fakegpu.node.telemetry import Asked, Draw, busy
from fakegpu.topology.node_topology import NodeTopology

MIB: Final = 2**20


def pod_files(
    topology: NodeTopology, reservations: str, draw: Draw, asked: Asked
) -> dict[str, bytes]:
    """Content by path, below the directory of the node's agent."""
    found: dict[str, bytes] = {}
    for index, gpu in enumerate(topology.gpus):
        if gpu.status.allocated_by.namespace == reservations:
            for uid, usage in gpu.status.pod_gpu_usage_status.items():
                folder = f"proc/pod/{uid}/metrics/gpu/{index}"
                shown = min(100, busy(uid, usage, draw, asked))
                found[f"{folder}/utilization.sm"] = f"{shown}\n".encode()
                found[f"{folder}/memory.allocated"] = f"{usage.fb_used * MIB}\n".encode()
    return found
