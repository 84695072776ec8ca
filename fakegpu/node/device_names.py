"""The names of devices in ResourceSlices and in allocated claims.

The names are those of NVIDIA's DRA driver: ``gpu-<minor>``, and for an instance
``gpu-<minor>-mig-<profile>-<profile id>-<start>``. They depend on the place only, so an instance
has its name before it is created. An older claim may hold a device by its id in lower case.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fakegpu.topology.node_topology import Gpu, MigDevice, NodeTopology


def gpu_name(index: int) -> str:
    """The name of a whole GPU."""
    return f"gpu-{index}"


def instance_name(index: int, one: MigDevice) -> str:
    """The name of a MIG instance of a GPU.

    >>> instance_name(0, MigDevice("MIG-x", "1g.10gb+me", 3, 1, 9856, 20))
    'gpu-0-mig-1g10gb-me-20-3'
    """
    profile = one.profile.replace(".", "").replace("+", "-")
    return f"{gpu_name(index)}-mig-{profile}-{one.gpu_instance_id}-{one.position}"


def ids_by_name(topology: NodeTopology) -> Mapping[str, str]:
    """The id of each existing device, by its name and by the id in lower case."""
    found: dict[str, str] = {}
    for index, gpu in enumerate(topology.gpus):
        found |= of_gpu(index, gpu)
    return found


def of_gpu(index: int, gpu: Gpu, parts: Iterable[MigDevice] = ()) -> dict[str, str]:
    """The same for one GPU; ``parts`` are possible instances of it."""
    found = {gpu_name(index): gpu.id, gpu.id.lower(): gpu.id}
    for one in (*gpu.instances, *parts):
        found |= {instance_name(index, one): one.id, one.id.lower(): one.id}
    return found
