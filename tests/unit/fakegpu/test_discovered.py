"""The fake's labels beside those that NVIDIA's gpu-feature-discovery wrote for the same GPUs.

``tests/golden/gfd`` was written by its version 0.20 on NVIDIA's mock NVML, run with
``--no-timestamp``. What differs is listed here, each with its reason; everything else is equal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fakegpu.node.node_labels import labels
from fakegpu.topology.node_topology import MigStrategy
from tests.unit.fakegpu.nodes import GPU, fake, slicing

GOLDEN = Path(__file__).parents[2] / "golden" / "gfd"
ONE_G = "mig: {mig-devices: {1g.5gb: 7}}"
UNEQUAL = "mig: {mig-configs: {selected: [{devices: [0], mig-devices: {1g.5gb: 7}}, "
UNEQUAL += "{devices: [1], mig-devices: {3g.20gb: 2}}]}}"
TWO_A100 = "gpus: [{type: a100, count: 2}]"
RENAMED = slicing(4, more="renameByDefault: true, ")

GPU_MODELS: list[Any] = [
    pytest.param(name, f"gpu: {{profile: {name}}}", "none", "", id=name)
    for name in ("a100", "b200", "gb200", "gb300", "h100", "l40s", "t4")
]
LAYOUTS: list[Any] = [
    pytest.param("m-mixed", f"{TWO_A100}, {ONE_G}", "mixed", "", id="mixed"),
    pytest.param("m-single", f"{TWO_A100}, {ONE_G}", "single", "", id="single"),
    pytest.param("m-inv", f"{TWO_A100}, {UNEQUAL}", "single", "", id="single-of-two-profiles"),
    pytest.param("m-ren", TWO_A100, "none", RENAMED, id="renamed"),
    pytest.param(
        "m-ts",
        f"{TWO_A100}, {ONE_G}",
        "mixed",
        slicing(3, "nvidia.com/mig-1g.5gb"),
        id="time-sliced-instances",
    ),
]

#: Labels of ours that are not NVIDIA's feature discovery's, by their beginning.
ONLY_OURS = {
    "gpu-type": "seed 004 selects by it",
    "gpu-memory": "seed 004 selects by it",
    "gpu-count": "seed 004 selects by it",
    "nvidia.com/gpu": "seed 004 selects by it, and its taints are put by it",
    "nvidia.com/gpu.present": "seed 001; written by NVIDIA's GPU operator",
    "nvidia.com/gpu.deploy.dcgm-exporter": "seed 001; written by NVIDIA's GPU operator",
    "nvidia.com/gpu.deploy.device-plugin": "seed 001; written by NVIDIA's GPU operator",
    "nvidia.com/gpu.deploy.dra-plugin-gpu": "seed 001",
    "nvidia.com/gpu.deploy.compute-domain-dra-plugin": "seed 001",
    "run.ai/fake.gpu": "seed 001: how a fake node is known",
    "gpu-scheduler.io/devices": "the fake plugin honours indexes; NVIDIA's does not",
}
#: Labels with other values: the mock's value is not a real card's.
ANYWHERE = {
    "nvidia.com/gpu.machine": "the mock's machine has no DMI name",
    "nvidia.com/gpu.mode": "the mock has no PCI class; a real card's mode is compute",
}
MEMORY = "the mock's instances have 98 % of the nominal memory; ours what listings show"
HERE = {
    "l40s": {"nvidia.com/mig.capable": "the mock has a MIG mode on every board"},
    "t4": {"nvidia.com/mig.capable": "the mock has a MIG mode on every board"},
    "gb300": {"nvidia.com/gpu.compute.minor": "a GB300 has 10.3, the mock says 10.0"},
    "m-single": {"nvidia.com/gpu.memory": MEMORY},
    "m-mixed": {"nvidia.com/mig-1g.5gb.memory": MEMORY},
    "m-ts": {"nvidia.com/mig-1g.5gb.memory": MEMORY},
}


def real(name: str) -> dict[str, str]:
    lines = (GOLDEN / f"{name}.labels").read_text(encoding="utf-8").splitlines()
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


@pytest.mark.parametrize(("name", "pool", "strategy", "sharing"), [*GPU_MODELS, *LAYOUTS])
def test_labels_are_those_of_nvidias_feature_discovery(
    name: str, pool: str, strategy: MigStrategy, sharing: str
) -> None:
    node = fake(pool, strategy=strategy, sharing=sharing)
    ours = labels(node, is_kwok=False, is_index_assigned=True)
    theirs = real(name)

    assert ours.keys() - theirs.keys() <= ONLY_OURS.keys()
    assert theirs.keys() - ours.keys() == set()
    different = {key for key in theirs if ours[key] != theirs[key]}
    assert different == ANYWHERE.keys() | HERE.get(name, {}).keys()


@pytest.mark.parametrize(
    ("pool", "strategy", "sharing", "expected"),
    [
        pytest.param(
            f"{TWO_A100}, {UNEQUAL}", "mixed", slicing(3), ("", "0", "none"), id="all-cut"
        ),
        pytest.param(
            f"{TWO_A100}, {ONE_G}",
            "single",
            slicing(3),
            ("-MIG-1g.5gb-SHARED", "3", "time-slicing"),
            id="single",
        ),
        pytest.param(
            f"{TWO_A100}, {ONE_G}", "none", "", ("", "0", "none"), id="cut-and-not-looked-at"
        ),
        pytest.param(
            f"{TWO_A100}, mig: {{mig-configs: {{selected: [{{devices: [0], "
            "mig-devices: {1g.5gb: 7}}]}}",
            "mixed",
            slicing(3),
            ("-SHARED", "3", "time-slicing"),
            id="one-is-whole",
        ),
    ],
)
def test_sharing_of_gpus_is_told_where_a_whole_gpu_is_offered(
    pool: str, strategy: MigStrategy, sharing: str, expected: tuple[str, str, str]
) -> None:
    """As the real program did for each of these: product, replicas, strategy."""
    found = labels(
        fake(pool, strategy=strategy, sharing=sharing), is_kwok=True, is_index_assigned=True
    )
    words = (f"{GPU}.product", f"{GPU}.replicas", f"{GPU}.sharing-strategy")

    product, *rest = (found[word] for word in words)
    assert (product.removeprefix("NVIDIA-A100-SXM4-40GB"), *rest) == expected


@pytest.mark.parametrize(
    ("pool", "profile", "multiprocessors"),
    [
        pytest.param("a100", "1g.5gb", "14", id="a100-1g"),
        pytest.param("a100", "7g.40gb", "98", id="a100-7g"),
        pytest.param("h100", "1g.10gb", "16", id="h100-1g"),
        pytest.param("h100", "3g.40gb", "60", id="h100-3g"),
        pytest.param("h100-pcie", "1g.10gb", "14", id="h100-pcie-1g"),
        pytest.param("b200", "2g.45gb", "36", id="b200-2g"),
        pytest.param("a30", "2g.12gb", "28", id="a30-2g"),
        pytest.param("rtx-pro-6000", "2g.48gb", "94", id="rtx-pro-6000-2g"),
    ],
)
def test_an_instance_has_the_multiprocessors_of_its_board(
    pool: str, profile: str, multiprocessors: str
) -> None:
    node = fake(f"gpus: [{{type: {pool}}}], mig: {{mig-devices: {{{profile}: 1}}}}")
    found = labels(node, is_kwok=True, is_index_assigned=True)

    assert found[f"nvidia.com/mig-{profile}.multiprocessors"] == multiprocessors


def test_a_variant_is_written_with_a_dot_in_its_product_too() -> None:
    node = fake("gpus: [{type: h100}], mig: {mig-devices: {1g.10gb+me: 1}}")
    found = labels(node, is_kwok=True, is_index_assigned=True)

    wanted = "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me"
    assert found["nvidia.com/mig-1g.10gb.me.product"] == wanted
