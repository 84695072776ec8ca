"""Pools in every shape that was ever documented, each read by itself and strictly."""

from __future__ import annotations

import pytest

from fakegpu.catalog.products import PRODUCTS, label_value, product_of
from fakegpu.topology.document import read_config_map, read_profile, read_topology
from fakegpu.topology.invalid import Invalid
from fakegpu.topology.pools import Pool, Topology

K80 = ("Tesla-K80", 11441)
A100 = ("NVIDIA A100-SXM4-40GB", 40960)


def read(pool: str, **more: str) -> Topology:
    """A topology with one pool, ``p``, whose text is given."""
    head = "".join(f"{key}: {value}\n" for key, value in more.items())
    return read_topology(f"{head}nodePools:\n  p: {pool}\n")


def pool(text: str) -> Pool:
    topology = read(text)
    assert topology.problems == {}
    return topology.pools["p"]


def gpus(text: str) -> list[tuple[str, int]]:
    return [(gpu.product, gpu.memory_mib) for gpu in pool(text).gpus]


SHAPES = [
    pytest.param(
        "{gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441}", [K80] * 2, id="flat-legacy"
    ),
    pytest.param("{gpuProduct: NVIDIA-T4, gpuCount: 1}", [("NVIDIA-T4", 16384)], id="no-memory"),
    pytest.param(
        '{gpus: [{type: "Tesla K80", memory: "12GB", count: 2}]}',
        [("Tesla K80", 12288)] * 2,
        id="list-of-the-seeds-readme",
    ),
    pytest.param(
        "{gpus: [{type: a100, count: 1}, {type: t4, count: 2}]}",
        [A100, ("NVIDIA T4", 16384), ("NVIDIA T4", 16384)],
        id="gpus-that-differ",
    ),
    pytest.param("{gpu: {profile: a100}}", [A100] * 8, id="profile"),
    pytest.param(
        "{gpu: {profile: a100, overrides: {device_count: 3}}}", [A100] * 3, id="override-of-count"
    ),
    pytest.param(
        "{gpu: {profile: t4, overrides: {device_defaults: {memory: {total_bytes: 1073741824}}}}}",
        [("NVIDIA T4", 1024)] * 4,
        id="override-deep-down",
    ),
    pytest.param(
        "{gpu: {profile: a100, overrides: {devices: [{}]}}}", [A100], id="a-list-is-replaced"
    ),
    pytest.param(
        "{gpus: [{type: Imaginary-X1, memory: 1GiB}]}", [("Imaginary-X1", 1024)], id="unknown"
    ),
    pytest.param("{}", [], id="a-pool-without-gpus"),
]


@pytest.mark.contract("S1-15", "S1-16", "S1-18", "S1-19", "S1-21", "S1-B2")
@pytest.mark.parametrize(("text", "wanted"), SHAPES)
def test_every_documented_shape_is_read(text: str, wanted: list[tuple[str, int]]) -> None:
    assert gpus(text) == wanted


@pytest.mark.contract("S1-17", "S1-B2")
def test_pools_of_different_shapes_may_have_any_order() -> None:
    texts = {str(case.id): str(case.values[0]) for case in SHAPES}
    lines = [f"  {name}: {text}\n" for name, text in texts.items()]

    forward = read_topology("nodePools:\n" + "".join(lines))
    backward = read_topology("nodePools:\n" + "".join(reversed(lines)))

    assert forward.pools == backward.pools
    assert forward.problems == backward.problems == {}
    for name, text in texts.items():
        assert forward.pools[name].gpus == pool(text).gpus


REFUSED = [
    pytest.param(
        "{gpus: [{typ: a100}]}", "nodePools.p.gpus[0]: object contains unknown field `typ`"
    ),
    pytest.param("{gpuProdct: x}", "nodePools.p: object contains unknown field `gpuProdct`"),
    pytest.param(
        "{gpus: [{type: nonsense}]}", "nodePools.p.gpus[0].type: 'nonsense' is not in the"
    ),
    pytest.param("{gpus: [{type: a100, count: 999}]}", "nodePools.p.gpus[0].count: expected `int`"),
    pytest.param(
        "{gpus: [{type: t4, memory: 5 apples}]}", "nodePools.p.gpus[0].memory: expected MiB"
    ),
    pytest.param("{gpus: [{type: t4, memory: 0}]}", "nodePools.p.gpus[0].memory: expected between"),
    pytest.param("{gpuCount: 2}", "nodePools.p.gpuProduct: missing"),
    pytest.param("{gpuProduct: T4, gpus: []}", "nodePools.p: give one of gpu, gpus, or gpuProduct"),
    pytest.param("{gpu: {profile: zz}}", "nodePools.p.gpu.profile: no profile 'zz'; there are a10"),
    pytest.param(
        "{gpu: {profile: t4, overrides: {devices: 3}}}",
        "nodePools.p.gpu.overrides.devices: expected a list",
    ),
    pytest.param(
        "{gpuProduct: NVIDIA-H200, gpuMemory: 71680, mig: {mig-devices: {2g.20gb: 4}}}",
        "nodePools.p.mig: mig-configs.selected[0]: GPU 0: 4 x 2g.20gb do not fit on one H200-70",
    ),
    pytest.param(
        "{gpuProduct: T4, mig: {mig-devices: {1g.5gb: 1}}}", "nodePools.p.mig: mig-configs.selected"
    ),
    pytest.param(
        "{gpu: {profile: t4}, numa: {zones: 2, gpusPerZone: [4]}}",
        "nodePools.p.numa.gpusPerZone: expected 2 numbers",
    ),
    pytest.param(
        "{gpu: {profile: t4}, numa: {zones: 2, gpusPerZone: [4, 1]}}",
        "nodePools.p.numa.gpusPerZone: the zones have to add up to 4 GPUs",
    ),
    pytest.param(
        "{sharing: {timeSlicing: {resources: [{name: a, replicas: 1}]}}}",
        "nodePools.p.sharing.timeSlicing.resources[0].replicas: expected `int` >= 2",
    ),
]


@pytest.mark.contract("S1-B2")
@pytest.mark.parametrize(("text", "problem"), REFUSED, ids=[str(c.values[1]) for c in REFUSED])
def test_invalid_pool_is_refused_with_its_path_and_others_are_kept(text: str, problem: str) -> None:
    topology = read_topology(f"nodePools:\n  p: {text}\n  q: {{gpu: {{profile: t4}}}}\n")

    assert topology.problems["p"].startswith(problem)
    assert "p" not in topology.pools
    assert len(topology.pools["q"].gpus) == 4


@pytest.mark.contract("S1-14", "S1-17")
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param({}, "missing key topology.yml", id="no-key"),
        pytest.param(None, "missing key topology.yml", id="no-data"),
        pytest.param({"topology.yml": " \n"}, "topology data is empty", id="blank"),
        pytest.param(
            {"topology.yml": "nodePool: {}"},
            "object contains unknown field `nodePool`",
            id="unknown-key",
        ),
        pytest.param(
            {"topology.yml": "migStrategy: some"}, "migStrategy: invalid enum value", id="strategy"
        ),
        pytest.param({"topology.yml": "a: ["}, "", id="no-yaml"),
    ],
)
def test_a_config_map_that_cannot_be_read_says_why(data: dict[str, str], problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_config_map(data)

    assert str(refused.value).startswith(problem)
    assert "\n" not in str(refused.value)


@pytest.mark.contract("S1-12", "S1-14", "S1-20")
def test_values_files_and_older_forms_are_read_too() -> None:
    values = "topology:\n  nodePools: {p: {gpu: {profile: t4}}}\n  migStrategy: single\n"
    whole = "cluster:\n  nodePools: {c: {gpu: {profile: l4}}}\n"
    old = "config: {node-autofill: {gpu-count: 3, gpu-memory: 11441, gpu-product: Tesla-K80}}\n"

    assert list(read_topology(values).pools) == ["p"]
    assert read_topology(values).mig_strategy == "single"
    assert list(read_topology(values + whole).pools) == ["c"]
    assert len(read_topology(old).pools["default"].gpus) == 3
    default = read_topology("migStrategy: mixed").pools["default"]
    assert [(gpu.product, gpu.memory_mib) for gpu in default.gpus] == [K80] * 2


@pytest.mark.contract("S1-21", "S1-23")
def test_a_profile_of_ones_own_is_a_document_of_the_same_shape() -> None:
    mine = read_profile(
        "system: {driver_version: '1.2.3', cuda_version: '9.9'}\n"
        "device_defaults: {name: My GPU, memory: {total_bytes: 2147483648}}\ndevice_count: 5\n"
    )

    topology = read_topology("nodePools: {p: {gpu: {profile: mine}}}", {"mine": mine})

    assert len(topology.pools["p"].gpus) == 5
    assert (topology.pools["p"].driver, topology.pools["p"].cuda) == ("1.2.3", "9.9")
    assert topology.pools["p"].gpus[0].memory_mib == 2048


@pytest.mark.contract("S1-3", "S1-16")
def test_other_resources_have_both_spellings_and_no_whole_gpus() -> None:
    text = (
        "{resources: [{rdma/hca: 4}, {nvidia.com/gpu: 9}], otherDevices: [{name: a/b, count: 1}]}"
    )

    assert [(one.name, one.count) for one in pool(text).others] == [("a/b", 1), ("rdma/hca", 4)]


SEED_PROFILES = [
    ("a100", "NVIDIA A100-SXM4-40GB", 40960, 8, "550.163.01", "12.4"),
    ("b200", "NVIDIA B200", 196608, 8, "560.35.03", "12.6"),
    ("gb200", "NVIDIA GB200", 196608, 8, "580.65.06", "13.0"),
    ("gb300", "NVIDIA GB300 NVL", 294912, 8, "570.124.06", "12.8"),
    ("h100", "NVIDIA H100 80GB HBM3", 81920, 8, "550.163.01", "12.4"),
    ("l40s", "NVIDIA L40S", 49152, 8, "550.163.01", "12.4"),
    ("t4", "NVIDIA T4", 16384, 4, "550.163.01", "12.4"),
]


@pytest.mark.contract("S1-22")
@pytest.mark.parametrize(
    ("name", "title", "memory", "count", "driver", "cuda"), SEED_PROFILES, ids=lambda v: str(v)
)
def test_the_seeds_profiles_mean_what_they_mean_there(
    name: str, title: str, memory: int, count: int, driver: str, cuda: str
) -> None:
    """Only GB200 has NVIDIA's name, driver and CUDA version."""
    found = pool(f"{{gpu: {{profile: {name}}}}}")

    assert [(one.product, one.memory_mib) for one in found.gpus] == [(title, memory)] * count
    assert (found.driver, found.cuda) == (driver, cuda)


@pytest.mark.parametrize(
    ("text", "memory", "kind"),
    [
        ("Tesla K80", 0, "k80"),
        ("NVIDIA-Tesla-V100-SXM2-32GB", 0, "v100-32"),
        ("A100", 0, "a100"),
        ("A100", 81920, "a100-80"),
        ("NVIDIA-A100-SXM4-80GB", 0, "a100-80"),
        ("NVIDIA-H200", 71680, "h200"),
        ("NVIDIA H100 NVL", 0, "h100-nvl"),
        ("L40S", 0, "l40s"),
        ("GH200", 0, "gh200"),
        ("a1000", 0, None),
        ("", 0, None),
    ],
)
def test_a_product_is_found_by_the_words_of_its_name(
    text: str, memory: int, kind: str | None
) -> None:
    found = product_of(text, memory)

    assert (found.kind if found else None) == kind


def test_every_product_is_found_by_its_own_names_and_has_a_label() -> None:
    for kind, product in PRODUCTS.items():
        assert product_of(kind) is product
        assert product_of(product.title, product.memory_mib) is product
        assert product_of(product.label, product.memory_mib) is product
        assert product.label == label_value(product.label)
