"""What a node offers and which labels it carries: strategies, time-slicing, failures."""

from __future__ import annotations

from typing import Any

import pytest

from fakegpu.node.advertised_devices import amounts, supply
from fakegpu.node.faults import read as read_faults
from fakegpu.node.node_labels import labels
from fakegpu.topology.invalid import Invalid
from fakegpu.topology.node_topology import Failure, MigStrategy
from fakegpu.topology.sharing import chosen, read_plugin_config
from tests.unit.fakegpu.nodes import GPU, H200, fake, slicing

ONE_G = "mig: {mig-devices: {1g.10gb: 7}}"
MEDIUM = "mig: {mig-devices: {0: 2g.20gb, 2: 2g.20gb, 4: 2g.20gb, 6: 1g.10gb}}"
HALF = "mig: {mig-configs: {selected: [{devices: [0], mig-devices: {1g.10gb: 7}}]}}"
MIG_1G, MIG_2G = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-2g.20gb"

OFFERS = [
    pytest.param("mixed", "gpuCount: 4", {GPU: 4}, id="whole"),
    pytest.param("mixed", f"gpuCount: 4, {ONE_G}", {MIG_1G: 28}, id="seed-000-small"),
    pytest.param("mixed", f"gpuCount: 4, {MEDIUM}", {MIG_2G: 12, MIG_1G: 4}, id="seed-000-medium"),
    pytest.param("mixed", f"gpuCount: 2, {HALF}", {GPU: 1, MIG_1G: 7}, id="half-cut"),
    pytest.param("single", f"gpuCount: 2, {ONE_G}", {GPU: 14}, id="single-counts-instances"),
    pytest.param("single", f"gpuCount: 2, {MEDIUM}", {}, id="single-of-several-profiles"),
    pytest.param("single", f"gpuCount: 2, {HALF}", {}, id="single-of-some-gpus"),
    pytest.param("single", "gpuCount: 2", {GPU: 2}, id="single-of-nothing-cut"),
    pytest.param("none", f"gpuCount: 2, {ONE_G}", {GPU: 2}, id="none-sees-no-instances"),
]


@pytest.mark.contract("S0-2", "S0-3", "S0-B1", "S1-8", "S1-63")
@pytest.mark.parametrize(("strategy", "pool", "wanted"), OFFERS)
def test_what_a_node_offers_follows_from_its_strategy(
    strategy: MigStrategy, pool: str, wanted: dict[str, int]
) -> None:
    found = amounts(fake(f"{H200}, {pool}", strategy=strategy))

    assert found.capacity == found.allocatable == wanted


SHARED = [
    pytest.param(slicing(4), {GPU: 8}, id="replicas"),
    pytest.param(slicing(4, more="renameByDefault: true, "), {f"{GPU}.shared": 8}, id="renamed"),
    pytest.param(slicing(3, MIG_1G), {GPU: 2}, id="another-resource"),
    pytest.param("", {GPU: 2}, id="no-file"),
]


@pytest.mark.contract("S4-3")
@pytest.mark.parametrize(("file", "wanted"), SHARED)
def test_time_slicing_multiplies_and_renames(file: str, wanted: dict[str, int]) -> None:
    found = fake(f"{H200}, gpuCount: 2", sharing=file)

    assert amounts(found).allocatable == wanted
    ids = [device.id for devices in supply(found).values() for device in devices]
    assert len(set(ids)) == len(ids)
    assert {name.partition("::")[0] for name in ids} == {gpu.id for gpu in found.gpus}


def test_instances_are_shared_too() -> None:
    found = fake(f"{H200}, gpuCount: 1, {ONE_G}", sharing=slicing(3, MIG_1G))

    assert amounts(found).allocatable == {MIG_1G: 21}


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        pytest.param("version: v2", "version: expected v1, got 'v2'", id="version"),
        pytest.param("sharing: {mps: {}}", "sharing: object contains unknown field", id="mps"),
        pytest.param(
            "sharing: {timeSlicing: {resources: [{name: a, replicas: 2, devices: [0]}]}}",
            "sharing.timeSlicing.resources[0].devices: only 'all'",
            id="some-devices",
        ),
        pytest.param(
            "sharing: {timeSlicing: {resources: [{name: a, replicas: 2}, {name: a, replicas: 3}]}}",
            "sharing.timeSlicing.resources[1].name: a is listed twice",
            id="twice",
        ),
        pytest.param("flags: {migStrategy: all}", "flags.migStrategy: expected none", id="flags"),
    ],
)
def test_a_plugin_file_that_cannot_be_used_is_refused_with_its_path(
    file: str, problem: str
) -> None:
    with pytest.raises(Invalid) as refused:
        read_plugin_config(file)

    assert str(refused.value).startswith(problem)


@pytest.mark.contract("S4-2")
def test_a_node_chooses_its_file_by_name_else_there_is_a_default() -> None:
    files = {"config.yaml": "a", "big": "b"}

    assert chosen(files, "big") == "big"
    assert chosen(files, "") == "config.yaml"
    assert chosen(files, "nothing") == ""
    assert chosen({"gpu-config.yaml": "c"}, "") == "gpu-config.yaml"
    assert chosen({"a": "", "b": ""}, "") == ""


FAILURES = [
    pytest.param({1: Failure(xid=79)}, (4, 3), id="xid"),
    pytest.param({1: Failure(xid=31)}, (4, 4), id="an-error-of-the-application"),
    pytest.param({1: Failure(xid=79, off_bus=True)}, (3, 3), id="off-the-bus"),
]


@pytest.mark.parametrize(("failures", "wanted"), FAILURES)
def test_failed_gpu_is_not_allocatable_and_lost_gpu_is_no_capacity(
    failures: Any, wanted: tuple[int, int]
) -> None:
    whole = amounts(fake(f"{H200}, gpuCount: 4", failures=failures))
    cut = amounts(fake(f"{H200}, gpuCount: 4, {ONE_G}", failures=failures))

    assert (whole.capacity[GPU], whole.allocatable[GPU]) == wanted
    assert (cut.capacity[MIG_1G], cut.allocatable[MIG_1G]) == (7 * wanted[0], 7 * wanted[1])


def test_allocatable_can_be_lowered_and_never_raised() -> None:
    found = amounts(fake(f"{H200}, gpuCount: 4"), {GPU: 1, "absent/resource": 3})
    more = amounts(fake(f"{H200}, gpuCount: 4"), {GPU: 9})

    assert (found.capacity, found.allocatable) == ({GPU: 4}, {GPU: 1})
    assert more.allocatable == {GPU: 4}


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("gpu-scheduler.io/fake-failures", "1=xid-79"),
        ("gpu-scheduler.io/fake-failures", "x:off-bus"),
        ("gpu-scheduler.io/fake-allocatable", "nvidia.com/gpu: 2"),
        ("gpu-scheduler.io/fake-mig", "fail=2"),
        ("gpu-scheduler.io/fake-mig", "slow"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_named_and_ignored(key: str, text: str) -> None:
    found = read_faults({key: text})

    (problem,) = found.problems
    assert problem.startswith(f"{key}: expected ")
    assert (found.failures, found.allocatable) == ({}, {})


def test_faults_are_read_as_they_are_written() -> None:
    found = read_faults(
        {
            "gpu-scheduler.io/fake-failures": "1:xid-79, 3:off-bus,0:xid-31",
            "gpu-scheduler.io/fake-allocatable": "nvidia.com/gpu=2",
            "gpu-scheduler.io/fake-mig": "latency=5s, fail=0.5",
        }
    )

    assert found.unusable == (1, 3)
    assert found.allocatable == {GPU: 2}
    assert (found.mig.latency_s, found.mig.fail_rate) == (5.0, 0.5)


@pytest.mark.contract("S1-4", "S1-5", "S4-4", "S4-9", "S4-10")
def test_the_labels_of_a_node_with_whole_gpus() -> None:
    found = labels(fake("gpu: {profile: a100}"), is_kwok=False, is_index_assigned=True)

    assert (
        found.items()
        >= {
            "nvidia.com/gpu.deploy.dcgm-exporter": "true",
            "nvidia.com/gpu.deploy.device-plugin": "true",
            "nvidia.com/gpu.deploy.dra-plugin-gpu": "true",
            "nvidia.com/gpu.deploy.compute-domain-dra-plugin": "true",
            "nvidia.com/gpu.memory": "40960",
            "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
            "nvidia.com/gpu.count": "8",
            "nvidia.com/gpu.present": "true",
            "nvidia.com/mig.strategy": "mixed",
            "nvidia.com/mig.capable": "true",
            "run.ai/fake.gpu": "true",
            "nvidia.com/gpu": "true",
            "gpu-type": "a100",
            "gpu-memory": "40gb",
            "gpu-count": "8",
            "nvidia.com/gpu.family": "ampere",
            "gpu-scheduler.io/devices": "numbered",
        }.items()
    )


@pytest.mark.contract("S1-5")
@pytest.mark.parametrize(
    ("product", "label"),
    [
        pytest.param("x" * 62 + "yz", "x" * 62 + "y", id="cut-to-63"),
        pytest.param("x" * 62 + "-z", "x" * 62, id="no-dash-where-it-was-cut"),
        pytest.param("(Tesla K80)", "Tesla-K80", id="only-the-characters-of-a-label"),
    ],
)
def test_a_products_label_is_cut_to_what_the_value_of_a_label_may_be(
    product: str, label: str
) -> None:
    pool = fake(f"gpuProduct: {product!r}, gpuMemory: 1024, gpuCount: 1")
    found = labels(pool, is_kwok=True, is_index_assigned=False)

    assert found["nvidia.com/gpu.product"] == label


@pytest.mark.contract("S4-4", "S4-27")
@pytest.mark.parametrize(
    ("profile", "count", "wanted"),
    [
        pytest.param("a100", 8, ("a100", "40gb", "8"), id="gpu-node-1"),
        pytest.param("v100", 4, ("v100", "16gb", "4"), id="gpu-node-2"),
        pytest.param("t4", 2, ("t4", "16gb", "2"), id="gpu-node-3"),
    ],
)
def test_the_three_nodes_of_the_lab_carry_its_three_labels(
    profile: str, count: int, wanted: tuple[str, ...]
) -> None:
    pool = fake(f"gpus: [{{type: {profile}, count: {count}}}]")
    found = labels(pool, is_kwok=False, is_index_assigned=False)

    assert tuple(found[key] for key in ("gpu-type", "gpu-memory", "gpu-count")) == wanted


@pytest.mark.contract("S1-4", "S1-63")
def test_what_labels_say_of_instances_of_sharing_and_of_kwok() -> None:
    cut = labels(fake(f"{H200}, gpuCount: 4, {MEDIUM}"), is_kwok=True, is_index_assigned=True)
    single = fake(f"{H200}, gpuCount: 2, {ONE_G}", strategy="single")
    one = labels(single, is_kwok=True, is_index_assigned=True)
    shared = labels(
        fake("gpu: {profile: t4}", sharing=slicing(4)), is_kwok=True, is_index_assigned=True
    )

    assert cut["nvidia.com/mig-2g.20gb.count"] == "12"
    assert cut["nvidia.com/mig-1g.10gb.slices.gi"] == "1"
    assert cut["nvidia.com/gpu.product"] == "NVIDIA-H200"
    assert one["nvidia.com/gpu.product"] == "NVIDIA-H200-MIG-1g.10gb"
    assert (one["nvidia.com/gpu.count"], one["nvidia.com/gpu.memory"]) == ("14", "10240")
    assert shared["nvidia.com/gpu.product"] == "NVIDIA-T4-SHARED"
    assert shared["nvidia.com/gpu.replicas"] == "4"
    for found in (cut, one, shared):
        assert "gpu-scheduler.io/devices" not in found
        assert "nvidia.com/gpu.deploy.device-plugin" not in found
