"""The division of a map entry's devices among containers, and how they are written."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.gpu.cuda_env import (
    ContainerGpus,
    CudaMode,
    device_shares,
    devices_needed,
    share_key,
    visible,
)


@pytest.mark.parametrize(
    ("wants", "needed", "shares"),
    [
        pytest.param([], 0, (), id="no-container"),
        pytest.param(
            [ContainerGpus(1), ContainerGpus(2)], 3, ((3,), (1, 2)), id="in-order-of-declaration"
        ),
        pytest.param(
            [ContainerGpus(2, ends_early=True), ContainerGpus(3)],
            3,
            ((3, 1), (3, 1, 2)),
            id="init-gives-back",
        ),
        pytest.param(
            [ContainerGpus(3, ends_early=True), ContainerGpus(1)],
            3,
            ((3, 1, 2), (3,)),
            id="init-needs-more",
        ),
        pytest.param(
            [ContainerGpus(1), ContainerGpus(2, ends_early=True), ContainerGpus(1)],
            3,
            ((3,), (1, 2), (1,)),
            id="a-sidecar-stays",
        ),
        pytest.param(
            [ContainerGpus(3, ends_early=True), ContainerGpus(1), ContainerGpus(2)],
            3,
            ((3, 1, 2), (3,), (1, 2)),
            id="init-before-the-sidecar",
        ),
    ],
)
def test_devices_are_divided_in_order(
    wants: list[ContainerGpus], needed: int, shares: tuple[tuple[int, ...], ...]
) -> None:
    """Containers that run together never share; one that ended gives its devices back."""
    assert devices_needed(wants) == needed
    assert device_shares(wants, (3, 1, 2)[:needed]) == shares


def test_a_single_requesting_container_uses_the_plain_key() -> None:
    """Only where several containers request do their keys need a position."""
    assert share_key(0, 1) == "gpu-scheduler.io/cuda-visible-devices"
    assert share_key(1, 2) == "gpu-scheduler.io/cuda-visible-devices.1"
    assert well_known.is_protected(share_key(1, 2))


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        pytest.param(CudaMode.AUTO, "3,1", id="auto"),
        pytest.param(CudaMode.INDEX, "3,1", id="index"),
        pytest.param(CudaMode.LOCAL, "0,1", id="local"),
    ],
)
def test_the_environments_text(mode: CudaMode, text: str) -> None:
    """Host numbers in the map's order, or numbers from 0."""
    assert visible((3, 1), mode) == text
