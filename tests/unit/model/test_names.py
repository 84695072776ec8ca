"""The names that other programs see: which resources are GPUs, which keys are protected."""

from __future__ import annotations

import pytest

from scheduler.model import names


@pytest.mark.parametrize(
    ("resource", "is_device", "profile"),
    [
        pytest.param("nvidia.com/gpu", True, "gpu", id="whole"),
        pytest.param("nvidia.com/mig-2g.20gb", True, "2g.20gb", id="mig"),
        pytest.param("nvidia.com/mig-1g.10gb.me", True, "1g.10gb.me", id="mig-attribute"),
        pytest.param("nvidia.com/vgpu", False, None, id="ends-in-gpu"),
        pytest.param("nvidia.com/gpu.shared", False, None, id="starts-like-it"),
        pytest.param("nvidia.com/gpumem", False, None, id="memory"),
        pytest.param("amd.com/gpu", False, None, id="amd"),
        pytest.param("requests.nvidia.com/gpu", False, None, id="a-quotas-name"),
        pytest.param("cpu", False, None, id="cpu"),
    ],
)
def test_gpus_are_told_by_their_exact_name(
    resource: str, is_device: bool, profile: str | None
) -> None:
    """Field case C31."""
    assert names.is_gpu_device(resource) is is_device
    if profile is not None:
        assert names.mig_profile(resource) == profile
        assert names.mig_resource(profile) == resource


@pytest.mark.parametrize(
    ("key", "protected"),
    [
        pytest.param("gpu-scheduler.io/devices", True, id="devices"),
        pytest.param("gpu-scheduler.io/pod-index", True, id="index"),
        pytest.param("gpu-scheduler.io/cuda-visible-devices", True, id="value"),
        pytest.param("gpu-scheduler.io/cuda-visible-devices.12", True, id="share"),
        pytest.param("gpu-scheduler.io/decision", True, id="decision"),
        pytest.param("gpu-scheduler.io/epoch", True, id="epoch"),
        pytest.param("gpu-scheduler.io/reservation", True, id="reservation"),
        pytest.param("gpu-scheduler.io/move", True, id="move"),
        pytest.param("gpu-scheduler.io/mig-fallback", False, id="the-users-ladder"),
        pytest.param("gpu-scheduler.io/cuda-mode", False, id="the-users-mode"),
        pytest.param("gpu-scheduling-map", False, id="the-map"),
        pytest.param("gpu-scheduler.io/devices2", False, id="look-alike"),
    ],
)
def test_what_only_a_binding_or_the_webhook_may_write(key: str, protected: bool) -> None:
    assert names.is_protected(key) is protected
