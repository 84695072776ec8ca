"""Names of boards and profiles: the spellings in use, and what each means on which board."""

from __future__ import annotations

import pytest

from scheduler.model.mig import layout
from scheduler.model.mig.layout import ProfileShape

CANONICAL = [
    pytest.param("1g.10gb", "1g.10gb", id="as-it-is"),
    pytest.param("nvidia.com/mig-2g.20gb", "2g.20gb", id="resource"),
    pytest.param("mig-2g.20gb", "2g.20gb", id="mig-prefix"),
    pytest.param("MIG 1g.5gb", "1g.5gb", id="as-nvidia-smi-prints-it"),
    pytest.param("1g.10gb.me", "1g.10gb+me", id="dot-me"),
    pytest.param("1g.10gb+me", "1g.10gb+me", id="plus-me"),
    pytest.param("1g.24gb-me", "1g.24gb-me", id="minus-me-is-its-own-variant"),
    pytest.param("1g.24gb.gfx", "1g.24gb+gfx", id="dot-gfx"),
    pytest.param("2g.48gb.me.all", "2g.48gb+me.all", id="dot-me-all"),
    pytest.param("2g.48gb+me.all", "2g.48gb+me.all", id="plus-me-all"),
    pytest.param("1c.3g.20gb", "1c.3g.20gb", id="compute-instance"),
    pytest.param(" 3G.40GB ", "3g.40gb", id="blanks-and-capitals"),
    pytest.param("nonsense", "nonsense", id="nonsense-stays"),
    pytest.param("", "", id="empty"),
]

MEANING = [
    pytest.param("A100-40", "1g.10gb", ProfileShape.ONE_DOUBLE, id="two-slices-of-40"),
    pytest.param("A100-80", "1g.10gb", ProfileShape.ONE, id="one-slice-of-80"),
    pytest.param("H100-94", "1g.24gb", ProfileShape.ONE_DOUBLE, id="two-slices-of-94"),
    pytest.param("GB200-186", "1g.24gb", ProfileShape.ONE, id="early-name-of-one-slice"),
    pytest.param("GB200-186", "7g.189gb", ProfileShape.SEVEN, id="early-name-of-the-whole"),
    pytest.param("RTX-PRO-6000", "1g.24gb", ProfileShape.QUARTER, id="a-quarter"),
    pytest.param("RTX-PRO-6000", "1g.24gb.gfx", ProfileShape.QUARTER, id="graphics"),
    pytest.param("RTX-PRO-6000", "1g.24gb-me", ProfileShape.QUARTER, id="no-media"),
    pytest.param("RTX-PRO-6000", "2g.48gb.me.all", ProfileShape.TWO_QUARTERS_MEDIA, id="all-media"),
    pytest.param("A100-80", "1g.10gb.me", ProfileShape.ONE_MEDIA, id="media-with-a-dot"),
    pytest.param("A30-24", "2g.12gb+me", ProfileShape.TWO_QUARTERS_MEDIA, id="media-of-a-2g"),
    pytest.param("A100-40", "1c.3g.20gb", ProfileShape.THREE, id="compute-instance-in-its-3g"),
    pytest.param("B300-269", "3g.133gb", ProfileShape.THREE, id="rounded-otherwise"),
    pytest.param("H200-70", "3g.30gb", ProfileShape.THREE, id="the-seeds-other-name-of-3g"),
    pytest.param("H200-70", "7g.70gb", ProfileShape.SEVEN, id="the-seeds-whole-card"),
]

UNKNOWN = [
    pytest.param("A100-80", "1g.5gb", id="of-another-board"),
    pytest.param("A100-80", "1g.24gb", id="too-large"),
    pytest.param("A100-80", "5g.50gb", id="no-such-compute"),
    pytest.param("A100-80", "1g.10gb-me", id="variant-the-board-lacks"),
    pytest.param("A100-80", "2g.20gb+me", id="media-of-a-kind-that-has-none"),
    pytest.param("H200-141", "2g.20gb", id="one-slice-of-memory-two-of-compute"),
    pytest.param("A100-80", "gpu", id="a-whole-gpu"),
    pytest.param("A100-80", "", id="empty"),
    pytest.param("A100-80", "1g.\u0661gb", id="digits-of-another-script"),
]

PRODUCTS = [
    pytest.param("NVIDIA-A100-SXM4-80GB", "A100-80", id="a100-80"),
    pytest.param("NVIDIA-A100-80GB-PCIe", "A100-80", id="a100-80-pcie"),
    pytest.param("NVIDIA-A800-SXM4-80GB", "A100-80", id="a800"),
    pytest.param("A100-SXM4-40GB", "A100-40", id="old-label"),
    pytest.param("NVIDIA A100-SXM4-40GB", "A100-40", id="as-nvml-says-it"),
    pytest.param("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "A100-40", id="strategy-single"),
    pytest.param("NVIDIA-A100-SXM4-80GB-SHARED", "A100-80", id="time-sliced"),
    pytest.param("NVIDIA-A30", "A30-24", id="a30"),
    pytest.param("NVIDIA-A30-MIG-1g.6gb", "A30-24", id="a30-single"),
    pytest.param("NVIDIA-H100-80GB-HBM3", "H100-80", id="h100"),
    pytest.param("NVIDIA-H100-PCIe", "H100-80", id="h100-pcie"),
    pytest.param("NVIDIA-H800", "H100-80", id="h800"),
    pytest.param("NVIDIA-H100-NVL", "H100-94", id="h100-nvl"),
    pytest.param("NVIDIA-GH200-480GB", "H100-96", id="gh200-480-is-the-cpus-memory"),
    pytest.param("NVIDIA-GH200-144G-HBM3e", "GH200-144", id="gh200-144"),
    pytest.param("NVIDIA-H20", "H100-96", id="h20"),
    pytest.param("NVIDIA-H20-3e", "H200-141", id="h20-141"),
    pytest.param("NVIDIA-H200", "H200-141", id="h200"),
    pytest.param("NVIDIA-H200-NVL", "H200-141", id="h200-nvl"),
    pytest.param("NVIDIA-B200", "B200-180", id="b200"),
    pytest.param("B200", "B200-180", id="b200-has-the-form-of-a-pci-id"),
    pytest.param("NVIDIA-GB200", "GB200-186", id="gb200"),
    pytest.param("NVIDIA-B300-SXM6-AC", "B300-269", id="b300"),
    pytest.param("NVIDIA-GB300", "GB300-278", id="gb300"),
    pytest.param("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX-PRO-6000", id="rtx-6000"),
    pytest.param("0x20B210DE", "A100-80", id="pci"),
    pytest.param("233B:10DE", "H200-141", id="pci-with-a-colon"),
    pytest.param("31c2", "GB300-278", id="pci-alone"),
]


@pytest.mark.contract("S3-3", "S3-B10")
@pytest.mark.parametrize(("text", "name"), CANONICAL)
def test_every_spelling_of_a_profile_has_one_canonical_form(text: str, name: str) -> None:
    assert layout.canonical(text) == name
    assert layout.canonical(name) == name


@pytest.mark.contract("S3-B10")
@pytest.mark.parametrize(("gpu_model", "text", "kind"), MEANING)
def test_the_board_says_what_a_name_means(gpu_model: str, text: str, kind: ProfileShape) -> None:
    profile = layout.profile_of(layout.GPU_MODELS[gpu_model], text)
    assert profile is not None
    assert profile.kind is kind


@pytest.mark.parametrize(("gpu_model", "text"), UNKNOWN)
def test_unknown_profile_of_a_model_is_none(gpu_model: str, text: str) -> None:
    assert layout.profile_of(layout.GPU_MODELS[gpu_model], text) is None


@pytest.mark.parametrize(("product", "gpu_model"), PRODUCTS)
def test_a_label_or_a_pci_id_names_the_board(product: str, gpu_model: str) -> None:
    found = layout.gpu_model_of(product)
    assert found is not None
    assert found.name == gpu_model


@pytest.mark.parametrize(
    "product",
    ["Tesla-K80", "NVIDIA-L40S", "NVIDIA-A100-SXM-64GB", "NVIDIA-A300", "0xFFFF10DE", "", "H"],
)
def test_unknown_gpu_has_no_model(product: str) -> None:
    assert layout.gpu_model_of(product) is None


@pytest.mark.contract("S0-2")
def test_seed_h200_is_told_from_the_real_one_by_memory_or_profiles() -> None:
    by_memory = layout.gpu_model_of("NVIDIA-H200", memory_mib=71680)
    by_names = layout.gpu_model_of("NVIDIA-H200", profiles=["2g.20gb", "1g.10gb"])
    assert by_memory is by_names is layout.GPU_MODELS["H200-70"]
    assert by_memory.whole.name == "7g.70gb"
    assert layout.gpu_model_of("NVIDIA-H200", memory_mib=143771) is layout.GPU_MODELS["H200-141"]
    # What the node says it has cut is stronger than a label of its memory.
    assert layout.gpu_model_of("NVIDIA-H200", 71680, ["1g.18gb"]) is layout.GPU_MODELS["H200-141"]


def test_profile_ids_equal_the_driver() -> None:
    forty = {
        "1g.5gb": 19,
        "1g.5gb+me": 20,
        "1g.10gb": 15,
        "2g.10gb": 14,
        "3g.20gb": 9,
        "4g.20gb": 5,
        "7g.40gb": 0,
    }
    assert {n: p.kind.profile_id for n, p in layout.GPU_MODELS["A100-40"].profiles.items()} == forty
    eighty = ["1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"]
    assert {n: p.kind.profile_id for n, p in layout.GPU_MODELS["A100-80"].profiles.items()} == dict(
        zip(eighty, forty.values(), strict=True)
    )


def test_resources_are_written_as_device_plugins_write_them() -> None:
    a100, rtx = layout.GPU_MODELS["A100-80"], layout.GPU_MODELS["RTX-PRO-6000"]
    assert a100.profiles["1g.10gb+me"].resource == "nvidia.com/mig-1g.10gb.me"
    assert rtx.profiles["1g.24gb+me.all"].resource == "nvidia.com/mig-1g.24gb.me.all"
    assert rtx.profiles["1g.24gb-me"].resource == "nvidia.com/mig-1g.24gb-me"
    for gpu_model in layout.GPU_MODELS.values():
        for profile in gpu_model.profiles.values():
            assert layout.profile_of(gpu_model, profile.resource) is profile


def test_usable_memory_follows_the_driver_listing() -> None:
    known = [p for b in layout.GPU_MODELS.values() for p in b.profiles.values() if p.memory_mib]
    assert known
    for profile in known:
        assert 0.9 * profile.nominal_mib < (profile.memory_mib or 0) < profile.nominal_mib


def test_a_compute_instance_says_how_many_slices_it_has() -> None:
    assert layout.compute_instances("nvidia.com/mig-1c.3g.20gb") == 1
    assert layout.compute_instances("3g.20gb") is None
