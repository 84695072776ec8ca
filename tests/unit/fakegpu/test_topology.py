"""One node's topology: ids, and both spellings, key by key as the seed operator writes them."""

from __future__ import annotations

import json

import pytest
import yaml

from fakegpu.node.device_assignment import assign
from fakegpu.server import encode_cluster
from fakegpu.topology.ids import gpu_id, mig_id
from fakegpu.topology.node_topology import (
    TopologyError,
    decode_yaml,
    encode_json,
    encode_yaml,
)
from tests.unit.fakegpu.nodes import H200, fake, read_answer, slicing, topology, use

NODE1_GPU0 = "GPU-9c371748-0caa-5ed1-a957-7da694d693b6"


@pytest.mark.contract("S1-25", "S1-B11")
def test_ids_are_the_seeds_and_the_same_for_ever() -> None:
    assert gpu_id("node1", 0) == NODE1_GPU0
    assert gpu_id("node1", 1) != NODE1_GPU0
    assert mig_id("node1", 0, "1g.10gb", 6) == mig_id("node1", 0, "1g.10gb", 6)
    assert mig_id("node1", 0, "1g.10gb", 6) != mig_id("node1", 0, "1g.10gb", 5)


@pytest.mark.contract("S1-24")
def test_the_config_map_has_the_seeds_keys() -> None:
    pool = "gpu: {profile: t4, overrides: {device_count: 1}}, otherDevices: [{name: a/b, count: 3}]"

    found = assign(fake(pool, node="node1"), [use("p")])

    assert yaml.safe_load(encode_yaml(found)) == {
        "gpuMemory": 16384,
        "gpuProduct": "NVIDIA T4",
        "driverVersion": "550.163.01",
        "cudaVersion": "12.4",
        "gpus": [
            {
                "id": NODE1_GPU0,
                "status": {
                    "allocatedBy": {"namespace": "team", "pod": "p", "container": "c"},
                    "podGpuUsageStatus": {
                        "uid-p": {
                            "utilization": {"min": 100, "max": 100},
                            "fbUsed": 16384,
                            "useKnativeUtilization": False,
                        }
                    },
                },
            }
        ],
        "migStrategy": "mixed",
        "otherDevices": [{"name": "a/b", "count": 3}],
    }


@pytest.mark.contract("S1-29")
def test_the_servers_json_has_the_seeds_keys_the_optional_ones_too() -> None:
    found = json.loads(encode_json(fake("gpuProduct: X, gpuMemory: 1", node="node1")))

    assert found == {
        "GpuMemory": 1,
        "GpuProduct": "X",
        "DriverVersion": "550.163.01",
        "CudaVersion": "12.4",
        "Gpus": [
            {
                "ID": NODE1_GPU0,
                "Status": {
                    "AllocatedBy": {"Namespace": "", "Pod": "", "Container": ""},
                    "PodGpuUsageStatus": {},
                },
            }
        ],
        "MigStrategy": "mixed",
        "OtherDevices": None,
    }


@pytest.mark.contract("S1-29")
def test_the_clusters_json_tells_real_numbers_of_every_form_of_pool() -> None:
    found = json.loads(encode_cluster(topology("gpu: {profile: a100}, resources: [{a/b: 2}]")))

    assert found["NodePoolLabelKey"] == "run.ai/simulated-gpu-node-pool"
    assert found["MigStrategy"] == "mixed"
    assert found["NodePools"]["p"] == {
        "GpuCount": 8,
        "GpuMemory": 40960,
        "GpuProduct": "NVIDIA A100-SXM4-40GB",
        "OtherDevices": [{"Name": "a/b", "Count": 2}],
    }


def test_instances_sharing_and_failures_are_in_both_spellings() -> None:
    cut = fake(f"{H200}, gpuCount: 1, mig: {{mig-devices: {{6: 1g.10gb}}}}", sharing=slicing(2))
    (instance,) = json.loads(encode_json(cut))["Gpus"][0]["MigDevices"]

    assert {key: instance[key] for key in ("Profile", "Position", "Size", "GpuInstanceId")} == {
        "Profile": "1g.10gb",
        "Position": 6,
        "Size": 1,
        "GpuInstanceId": 19,
    }
    assert read_answer(encode_json(cut)) == decode_yaml(encode_yaml(cut)) == cut


@pytest.mark.contract("S1-B13")
def test_text_that_is_no_topology_is_an_error_with_one_line() -> None:
    with pytest.raises(TopologyError, match="gpuMemory"):
        decode_yaml("gpus: []")
    with pytest.raises(TopologyError, match="int"):
        decode_yaml("gpuMemory: much\ngpuProduct: x\n")
