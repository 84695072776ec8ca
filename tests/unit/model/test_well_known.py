"""The names that other programs see: which resources are GPUs, which keys are protected."""

from __future__ import annotations

import pytest

from scheduler.model import well_known


@pytest.mark.parametrize(
    ("resource", "is_device", "profile"),
    [
        pytest.param("nvidia.com/gpu", True, "gpu", id="whole"),
        pytest.param("nvidia.com/mig-2g.20gb", True, "2g.20gb", id="mig"),
        pytest.param("nvidia.com/mig-1g.10gb.me", True, "1g.10gb.me", id="mig-attribute"),
        pytest.param("nvidia.com/gpu.shared", True, "gpu.shared", id="time-slicing-renames"),
        pytest.param("nvidia.com/mig-1g.5gb.shared", True, "1g.5gb.shared", id="slices-too"),
        pytest.param("nvidia.com/mig-1c.2g.20gb", True, "1c.2g.20gb", id="compute-instance"),
        pytest.param("nvidia.com/gpu-24gb", True, "gpu-24gb", id="rename-to-any-name"),
        pytest.param("nvidia.com/small", True, "small", id="rename-without-the-word"),
        pytest.param("nvidia.com/vgpu", True, "vgpu", id="a-share-by-another-plugin"),
        pytest.param("nvidia.com/GA102GL_A10", True, "GA102GL_A10", id="kubevirts-board"),
        pytest.param("nvidia.com/GRID_T4-1Q", True, "GRID_T4-1Q", id="kubevirts-vgpu"),
        pytest.param("nvidia.com/hostdev", False, None, id="network-operators-host-device"),
        pytest.param("nvidia.com/host_dev0", False, None, id="host-device-by-number"),
        pytest.param("nvidia.com/rdma0", False, None, id="rdma"),
        pytest.param("nvidia.com/sriov-rdma-vf", False, None, id="sriov"),
        pytest.param("nvidia.com/sriov_resource_rail_0", False, None, id="sriov-by-rail"),
        pytest.param("nvidia.com/mlnxnics", False, None, id="mellanox"),
        pytest.param("nvidia.com/bf3_p0_sf", False, None, id="bluefield"),
        pytest.param("nvidia.com/asap2_vf", False, None, id="switchdev"),
        pytest.param("nvidia.com/cx5_uplink", False, None, id="connectx"),
        pytest.param("nvidia.com/gpumem", False, None, id="memory"),
        pytest.param("nvidia.com/gpumem-percentage", False, None, id="memory-share"),
        pytest.param("nvidia.com/gpucores", False, None, id="cores"),
        pytest.param("nvidia.com/priority", False, None, id="priority"),
        pytest.param("nvidia.com/", False, None, id="no-name"),
        pytest.param("amd.com/gpu", False, None, id="amd"),
        pytest.param("requests.nvidia.com/gpu", False, None, id="a-quotas-name"),
        pytest.param("cpu", False, None, id="cpu"),
    ],
)
def test_a_name_of_nvidias_is_a_gpu_unless_it_says_what_else_it_is(
    resource: str, is_device: bool, profile: str | None
) -> None:
    """Field case C31; the names are those of public manifests."""
    assert well_known.is_gpu_device(resource) is is_device
    if profile is not None:
        assert well_known.mig_profile(resource) == profile
        assert well_known.mig_resource(profile) == resource


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
        pytest.param("gpu-scheduler.io/migration", True, id="move"),
        pytest.param("gpu-scheduler.io/mig-fallback", False, id="the-users-ladder"),
        pytest.param("gpu-scheduler.io/cuda-mode", False, id="the-users-mode"),
        pytest.param("gpu-scheduling-map", False, id="the-map"),
        pytest.param("gpu-scheduler.io/devices2", False, id="look-alike"),
    ],
)
def test_what_only_a_binding_or_the_webhook_may_write(key: str, protected: bool) -> None:
    assert well_known.is_protected(key) is protected
