"""Index-assigned nodes: GPUs near each other, where a DRA driver publishes their places too."""

from __future__ import annotations

from scheduler.model import well_known
from tests.builders import cluster, node, pod, settle
from tests.dra import device_json, resource_slice


def test_a_node_gives_gpus_of_one_numa_node() -> None:
    """The lowest free indexes would be of two."""
    devices = [
        device_json(
            f"gpu-{index}",
            attributes={
                "type": {"string": "gpu"},
                "resource.kubernetes.io/numaNode": {"int": index // 2},
            },
        )
        for index in range(4)
    ]
    state = cluster(
        node(gpus=4, with_gpu_indexes=True),
        resource_slice("n1", *devices, driver=well_known.DRA_DRIVER),
    )
    settle(state, pod("first", gpus=1))

    assert settle(state, pod("second", gpus=2)).devices.numbers == (2, 3)
