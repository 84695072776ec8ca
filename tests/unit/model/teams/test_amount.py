"""What devices are worth: slices and gigabytes."""

from __future__ import annotations

import pytest

from scheduler.model.node import Node
from scheduler.model.teams.amount import GpuAmount, kind_of
from tests.builders import node
from tests.teams import A100, amount

PRODUCT = "nvidia.com/gpu.product"


@pytest.mark.parametrize(
    ("here", "resource", "count", "expected"),
    [
        pytest.param(node(labels=A100), "gpu", 2, amount(14, 160), id="whole GPUs"),
        pytest.param(
            node(labels={PRODUCT: "NVIDIA-A30"}), "gpu", 1, amount(4, 24), id="A30 has 4 slices"
        ),
        pytest.param(
            node(labels={PRODUCT: "Tesla-T4", "nvidia.com/gpu.memory": "15360"}),
            *("gpu", 1, amount(7, 15)),
            id="a board without MIG",
        ),
        pytest.param(node(labels=A100), "mig-1g.10gb", 7, amount(7, 70), id="the smallest slice"),
        pytest.param(node(labels=A100), "mig-7g.80gb", 1, amount(7, 80), id="the largest slice"),
        pytest.param(node(labels=A100), "mig-1g.20gb", 1, amount(1, 20), id="double memory"),
        pytest.param(node(labels=A100), "mig-1g.10gb.me", 1, amount(1, 10), id="media engines"),
        pytest.param(node(labels=A100), "mig-1c.3g.40gb", 1, GpuAmount(1000, 13653), id="a part"),
        pytest.param(
            node(gpus=8, labels={**A100, "nvidia.com/gpu.replicas": "4"}),
            *("gpu", 1, amount(1.75, 20)),
            id="a time share",
        ),
        pytest.param(
            node(gpus=7, labels={PRODUCT: "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb"}),
            *("gpu", 2, amount(2, 20)),
            id="strategy single",
        ),
    ],
)
def test_a_device_counts_by_its_slices_and_memory(
    here: Node, resource: str, count: int, expected: GpuAmount
) -> None:
    """KUE#10108: 1g and 7g counted the same."""
    assert kind_of(here).of("nvidia.com/" + resource, count) == expected
