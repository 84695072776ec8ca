"""The MIG geometry of a node from labels, annotation and allocatable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scheduler.model.gpu.plugin_resources import with_no_whole_gpu
from scheduler.model.mig import layout
from scheduler.model.mig.config import MigConfigError, parse_config
from scheduler.model.mig.node_geometry import (
    SHAPE_TEXT_MAX,
    NodeMigGeometry,
    geometry,
    single_profile,
    sound,
)

SEED = {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "71680"}
A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
MEDIUM = (("2g.20gb", 0), ("2g.20gb", 2), ("2g.20gb", 4), ("1g.10gb", 6))
SMALL = tuple(("1g.10gb", start) for start in range(7))


def config(devices: str, instances: str, name: str = "selected", more: str = "") -> str:
    return (
        f"version: v1\nmig-configs:\n  {name}:\n  - devices: {devices}\n    mig-enabled: true\n"
        f"    mig-devices: {instances}\n{more}"
    )


def said(
    text: str, labels: dict[str, str] = SEED, counts: dict[str, int] | None = None
) -> NodeMigGeometry:
    offered = {f"nvidia.com/mig-{name}": count for name, count in (counts or {}).items()}
    return geometry(labels, {"run.ai/mig.config": text}, offered)


POSITIONED = "[{name: 2g.20gb, position: 0, size: 2}, {name: 2g.20gb, position: 2, size: 2},"
POSITIONED += " {name: 2g.20gb, position: 4, size: 2}, {name: 1g.10gb, position: 6, size: 1}]"
FORMS = [
    pytest.param("{0: 2g.20gb, 2: 2g.20gb, 4: 2g.20gb, 6: 1g.10gb}", id="position-to-profile"),
    pytest.param("[2g.20gb, 2g.20gb, 2g.20gb, 1g.10gb]", id="names"),
    pytest.param(POSITIONED, id="name-position-size"),
    pytest.param("{2g.20gb: 3, 1g.10gb: 1}", id="profile-to-count"),
    pytest.param("{'1g.10gb': 1, 'mig-2g.20gb': 3}", id="another-order-and-spelling"),
]
DEVICES = [
    pytest.param("[0]", (0,), id="one"),
    pytest.param("[0, 2]", (0, 2), id="several"),
    pytest.param('["1", "3"]', (1, 3), id="quoted"),
    pytest.param("2", (2,), id="bare"),
    pytest.param('"0,1"', (0, 1), id="in-one-string"),
    pytest.param("all", (0, 1, 2, 3), id="all"),
    pytest.param("[all]", (0, 1, 2, 3), id="all-in-a-list"),
]


@pytest.mark.contract("S0-10", "S0-5")
@pytest.mark.parametrize("form", FORMS)
def test_all_four_annotation_forms_are_equal(form: str) -> None:
    found = said(config("[0]", form))
    assert found.flaws == ()
    assert found.gpu_model == "H200-70"
    assert [(gpu.index, gpu.has_mig, gpu.layout) for gpu in found.gpus] == [(0, True, MEDIUM)]


@pytest.mark.contract("S0-10")
@pytest.mark.parametrize(("devices", "indexes"), DEVICES)
def test_gpu_name_forms(devices: str, indexes: tuple[int, ...]) -> None:
    labels = {**SEED, "nvidia.com/gpu.count": "4"}
    found = said(config(devices, "{1g.10gb: 7}"), labels)
    assert found.flaws == ()
    assert tuple(gpu.index for gpu in found.gpus) == indexes
    assert {gpu.layout for gpu in found.gpus} == {SMALL}


def test_count_without_label_follows_the_advertised_instances() -> None:
    found = said(config("all", "{2g.20gb: 3, 1g.10gb: 1}"), counts={"2g.20gb": 12, "1g.10gb": 4})
    assert len(found.gpus) == 4
    assert found.instances == (("1g.10gb", 4), ("2g.20gb", 12))
    assert found.whole_max == 0


FLAWED = [
    pytest.param("{2g.20gb: 4}", "4 x 2g.20gb do not fit on one H200-70", id="four-2g"),
    pytest.param("{6: 2g.20gb}", "cannot begin at slice 6", id="illegal-start"),
    pytest.param("{0: 3g.40gb, 2: 2g.20gb}", "overlaps another instance", id="overlap"),
    pytest.param("{5g.50gb: 1}", "5g.50gb is no profile of H200-70", id="unknown-profile"),
    pytest.param(
        "[{name: 2g.20gb, position: 0, size: 1}]", "2 memory slices and not 1", id="wrong-size"
    ),
    pytest.param("[{name: 2g.20gb, position: 0}, 1g.10gb]", "some have none", id="half-positioned"),
]


@pytest.mark.contract("S0-5")
@pytest.mark.parametrize(("form", "part"), FLAWED)
def test_illegal_geometry_is_one_line_and_counted_without_positions(form: str, part: str) -> None:
    found = said(config("[0]", form), counts={"2g.20gb": 3})
    (flaw,) = found.flaws
    assert flaw.startswith("run.ai/mig.config mig-configs.selected[0]: ")
    assert part in flaw
    assert "\n" not in flaw
    (gpu,) = found.gpus
    assert gpu.has_mig
    assert gpu.layout is None
    assert found.instances == (("2g.20gb", 3),)


UNREADABLE: list[Any] = [
    pytest.param("{", "is not YAML", id="no-yaml"),
    pytest.param("[" * 3000, "is not YAML", id="nested-too-deep"),
    pytest.param("x" * 70000, "at most 65536", id="too-long"),
    pytest.param("hello", "has no mapping mig-configs", id="text"),
    pytest.param("mig-configs: []", "has no mapping mig-configs", id="list"),
    pytest.param("version: v2\nmig-configs: {a: []}", "'v2' is not v1", id="other-version"),
    pytest.param("mig-configs: {a: [], b: []}", "call the one that holds selected", id="which"),
    pytest.param("mig-configs: {a: 1}", "mig-configs.a is not a list", id="no-entries"),
    pytest.param("mig-configs: {a: [1]}", "mig-configs.a[0] is not a mapping", id="no-entry"),
    pytest.param(config("[-1]", "{1g.10gb: 1}"), "'-1' is not a number", id="negative"),
    pytest.param(config("[x]", "{1g.10gb: 1}"), "'x' is not a number", id="letters"),
    pytest.param(config("[99]", "{1g.10gb: 1}"), "'99' is not a number from 0 to 63", id="large"),
    pytest.param(config("[0]", "{1g.10gb: 999}"), "more than a GPU holds", id="too-many"),
    pytest.param(config("[0]", "{1g.10gb: yes}"), "is not a profile", id="neither"),
    pytest.param(config("[0]", "[{position: 1}]"), "'None' is not a profile", id="nameless"),
    pytest.param(config("[0]", "seven"), "mig-devices is not a list", id="no-instances"),
    pytest.param(
        "mig-configs: {a: [{devices: all, mig-enabled: maybe}]}",
        "neither true nor false",
        id="flag",
    ),
    pytest.param(
        "mig-configs: {a: [{devices: all, mig-enabled: false, mig-devices: {1g.10gb: 1}}]}",
        "mig-devices and mig-enabled: false",
        id="contradiction",
    ),
]


@pytest.mark.parametrize(("text", "part"), UNREADABLE)
def test_unreadable_annotation_is_one_line_and_changes_nothing(text: str, part: str) -> None:
    found = said(text, counts={"1g.10gb": 7})
    (flaw,) = found.flaws
    assert flaw.startswith("run.ai/mig.config ")
    assert part in flaw
    assert "\n" not in flaw
    assert len(flaw) < 300
    assert found.gpus == ()
    assert found.instances == (("1g.10gb", 7),)


def test_mig_on_a_model_without_mig_is_an_error() -> None:
    found = said(config("[0]", "{1g.10gb: 1}"), {"nvidia.com/gpu.product": "NVIDIA-L40S"})
    assert found.gpu_model == ""
    assert "has no GPU model with MIG" in found.flaws[0]


def test_whole_and_cut_cards_stand_side_by_side() -> None:
    rest = "  - devices: [2, 3]\n    mig-enabled: false\n"
    labels = {**A100, "nvidia.com/gpu.count": "4"}
    found = said(config("[0, 1]", "{3g.40gb: 2}", more=rest), labels)
    assert [gpu.has_mig for gpu in found.gpus] == [True, True, False, False]
    assert found.gpus[0].layout == (("3g.40gb", 0), ("3g.40gb", 4))
    assert (found.mig_gpu_count, found.whole_max) == (2, 2)


def test_an_entry_for_another_board_is_not_for_this_node() -> None:
    text = (
        "version: v1\nmig-configs:\n  all-balanced:\n"
        "  - devices: all\n    device-filter: ['0x20B010DE', '0x20F110DE']\n    mig-enabled: true\n"
        "    mig-devices: {1g.5gb: 2, 2g.10gb: 1, 3g.20gb: 1}\n"
        "  - devices: all\n    device-filter: '0x20B210DE'\n    mig-enabled: true\n"
        "    mig-devices: {1g.10gb: 2, 2g.20gb: 1, 3g.40gb: 1}\n"
    )
    found = said(text, {**A100, "nvidia.com/gpu.count": "1"})
    assert found.flaws == ()
    (gpu,) = found.gpus
    assert gpu.layout is not None
    assert sorted(gpu.names) == ["1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"]
    assert layout.is_legal(layout.GPU_MODELS["A100-80"], gpu.layout)


def test_mig_enabled_gpu_without_instances_is_no_whole_gpu() -> None:
    text = "mig-configs: {all-enabled: [{devices: all, mig-enabled: true, mig-devices: {}}]}"
    found = said(text, {**A100, "nvidia.com/gpu.count": "2"})
    assert [(gpu.has_mig, gpu.layout) for gpu in found.gpus] == [(True, ()), (True, ())]
    assert found.whole_max == 0


SINGLE = [
    pytest.param(
        {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, "1g.5gb", id="yes"
    ),
    pytest.param(
        {"nvidia.com/gpu.product": "A100-SXM4-40GB-MIG-1g.5gb+me"}, "1g.5gb+me", id="media"
    ),
    pytest.param({"nvidia.com/gpu.product": "NVIDIA-A30-MIG-1g.6gb-SHARED"}, "1g.6gb", id="shared"),
    pytest.param({"nvidia.com/gpu.product": "NVIDIA-A30-MIG-INVALID"}, "", id="invalid"),
    pytest.param({"nvidia.com/gpu.product": "NVIDIA-A30"}, "", id="whole"),
    pytest.param(
        {"nvidia.com/gpu.product": "X-MIG-1g.6gb", "nvidia.com/mig.strategy": "mixed"},
        "",
        id="mixed",
    ),
    pytest.param({}, "", id="no-label"),
]


@pytest.mark.parametrize(("labels", "profile"), SINGLE)
def test_with_strategy_single_the_product_says_what_a_gpu_is(
    labels: dict[str, str], profile: str
) -> None:
    assert single_profile(labels) == profile


def test_with_strategy_single_the_gpus_are_counted_as_instances() -> None:
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb",
        "nvidia.com/mig.strategy": "single",
        "nvidia.com/gpu.count": "14",
    }
    found = geometry(labels, {}, {"nvidia.com/gpu": 14, "nvidia.com/mig-3g.40gb": 0})
    assert found.gpu_model == "A100-80"
    assert found.instances == (("1g.10gb", 14),)
    assert found.whole_max is None


WHOLE = [
    pytest.param(2, "2", {"1g.10gb": 6}, "", 1, id="one-card-carries-six-slices-for-certain"),
    pytest.param(2, "2", {"1g.10gb": 14}, "", 0, id="two-cards-are-full-of-slices"),
    pytest.param(2, "2", {"3g.40gb": 1, "2g.20gb": 3}, "", 0, id="ten-slices-need-two-cards"),
    pytest.param(2, "2", {"1g.10gb": 6}, "all", 0, id="the-annotation-says-all"),
    pytest.param(1, "2", {"2g.20gb": 3, "1g.10gb": 1}, "", 1, id="a-right-number-stays"),
    pytest.param(2, "", {"1g.10gb": 14}, "", 2, id="unknown-gpu-count"),
    pytest.param(8, "8", {"1g.10gb": 0}, "", 8, id="stale-zero-counts-take-nothing-away"),
    pytest.param(8, "8", {}, "", 8, id="no-mig"),
]


@pytest.mark.parametrize(("offered", "total_gpus", "instances", "annotated", "left"), WHOLE)
def test_partitioned_gpus_are_not_offered_whole(
    offered: int, total_gpus: str, instances: dict[str, int], annotated: str, left: int
) -> None:
    labels = {**A100, "nvidia.com/mig.strategy": "mixed"}
    if total_gpus:
        labels["nvidia.com/gpu.count"] = total_gpus
    text = config(annotated, "{1g.10gb: 3}") if annotated else ""
    allocatable = {"cpu": 8, "nvidia.com/gpu": offered}
    allocatable |= {f"nvidia.com/mig-{name}": count for name, count in instances.items()}
    annotations = {"run.ai/mig.config": text} if text else {}
    assert sound(labels, annotations, allocatable) == {**allocatable, "nvidia.com/gpu": left}


def test_time_sliced_gpus_are_counted_once_for_each_slice() -> None:
    labels = {
        **A100,
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/mig-1g.10gb.replicas": "2",
    }
    allocatable = {"nvidia.com/gpu": 4, "nvidia.com/mig-1g.10gb": 14}
    assert sound(labels, {}, allocatable) == allocatable
    assert geometry(labels, {}, allocatable).instances == (("1g.10gb", 7),)
    full = {**allocatable, "nvidia.com/gpu": 8}
    assert sound(labels, {}, full)["nvidia.com/gpu"] == 4


MIG_PARTED = """
version: v1
mig-configs:
  all-disabled:
    - {devices: all, mig-enabled: false}
  all-1g.10gb:
    - {devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 7}}
  custom:
    - {devices: [0], mig-enabled: true, mig-devices: {"1g.10gb+me": 1, "2g.20gb": 3}}
    - {devices: [1, 2], mig-enabled: false}
"""


def test_of_a_mig_parted_file_the_named_configuration_counts() -> None:
    assert [entry.is_enabled for entry in parse_config(MIG_PARTED, "all-disabled")] == [False]
    first, second = parse_config(MIG_PARTED, "custom")
    assert sorted(mig_device.profile for mig_device in first.mig_devices) == [
        "1g.10gb+me",
        *["2g.20gb"] * 3,
    ]
    assert (second.devices, second.mig_devices) == ((1, 2), ())
    with pytest.raises(MigConfigError, match="no configuration 'all-2g'"):
        parse_config(MIG_PARTED, "all-2g")


# --- what NVIDIA's own programs say of a node -------------------------------------------------

GFD = Path(__file__).parents[3] / "golden" / "gfd"
MIG_1G = "nvidia.com/mig-1g.5gb"
GPU = "nvidia.com/gpu"
REAL = [
    pytest.param("m-ts", {MIG_1G: 42}, "", (("1g.5gb", 14),), id="time-sliced"),
    pytest.param("m-ts", {f"{MIG_1G}.shared": 42}, "", (("1g.5gb", 14),), id="and-renamed"),
    pytest.param("m-mixed", {MIG_1G: 14}, "", (("1g.5gb", 14),), id="mixed"),
    pytest.param("m-single", {GPU: 14}, "1g.5gb", (("1g.5gb", 14),), id="single"),
    pytest.param("m-inv", {}, "", (), id="single-of-two-profiles"),
]


def discovered(name: str) -> dict[str, str]:
    """The labels that gpu-feature-discovery wrote."""
    lines = (GFD / f"{name}.labels").read_text(encoding="utf-8").splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


@pytest.mark.parametrize(("name", "offered", "single", "instances"), REAL)
def test_nvidias_labels_tell_how_many_instances_there_are(
    name: str, offered: dict[str, int], single: str, instances: tuple[tuple[str, int], ...]
) -> None:
    """Shares of a time-sliced instance are no instances."""
    found = geometry(discovered(name), {}, offered)

    assert (found.gpu_model, found.single, found.instances) == ("A100-40", single, instances)


def test_shares_of_a_single_profile_are_no_instances() -> None:
    labels = {**discovered("m-single"), f"{GPU}.replicas": "3"}

    for resource in (GPU, f"{GPU}.shared"):
        assert geometry(labels, {}, {resource: 42}).instances == (("1g.5gb", 14),)


@pytest.mark.parametrize("name", ["m-mixed", "m-inv"])
def test_partitioned_node_offers_no_whole_gpu_the_plugin_never_had(name: str) -> None:
    """Its allocatable has no such resource, and that does not mean that no plugin assigns GPUs."""
    labels = discovered(name)

    assert with_no_whole_gpu(labels, {"cpu": 4}) == {"cpu": 4, GPU: 0}
    assert with_no_whole_gpu(labels, {GPU: 2}) == {GPU: 2}
    assert with_no_whole_gpu(discovered("a100"), {"cpu": 4}) == {"cpu": 4}


def test_nodes_of_one_shape_share_their_geometry() -> None:
    text = config("[0]", "[2g.20gb]")
    own = {"kubernetes.io/hostname": "n1"}

    assert said(text, SEED) is said(text, SEED | own)
    assert said(text, A100) is not said(text, SEED)


def test_geometry_of_a_huge_annotation_is_not_kept() -> None:
    text = config("[0]", "[2g.20gb]") + "#" * SHAPE_TEXT_MAX

    assert said(text) is not said(text)
    assert said(text) == said(text)
