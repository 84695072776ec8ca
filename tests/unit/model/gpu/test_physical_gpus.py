"""Failed GPUs: the usable rest of a node, for any order of the updates."""

from __future__ import annotations

import pytest

from tests.builders import cluster, node, placed, pod

UNUSABLE = "gpu-scheduler.io/unusable-devices"
COUNT = {"nvidia.com/gpu.count": "4"}


@pytest.mark.parametrize(
    ("gpus", "annotations", "usable", "indexes"),
    [
        pytest.param(4, {}, 4, (0, 1, 2, 3), id="all-well"),
        pytest.param(3, {UNUSABLE: "1"}, 3, (0, 2, 3), id="one-failed"),
        pytest.param(4, {UNUSABLE: "1"}, 3, (0, 2, 3), id="offered-for-a-moment-still"),
        pytest.param(3, {}, 3, (0, 1, 2, 3), id="recovered-and-not-offered-yet"),
        pytest.param(2, {UNUSABLE: "0,3"}, 2, (1, 2), id="two-failed"),
        pytest.param(4, {UNUSABLE: " 1 ,,3,"}, 2, (0, 2), id="blanks-and-empty-words"),
    ],
)
def test_usable_gpus(
    gpus: int, annotations: dict[str, str], usable: int, indexes: tuple[int, ...]
) -> None:
    found = node(gpus=gpus, with_gpu_indexes=True, labels=COUNT, annotations=annotations)

    assert found.gpu_count == usable
    assert found.indexes == indexes
    given = placed(cluster(found), pod("p", gpus=usable)).devices.numbers
    assert given == indexes[:usable]


def test_count_without_label_is_allocatable_plus_failed() -> None:
    assert node(gpus=3, with_gpu_indexes=True, annotations={UNUSABLE: "1"}).indexes == (0, 2, 3)
    assert node(gpus=3, with_gpu_indexes=True).indexes == (0, 1, 2)
