"""The local clusters' KinD configurations, read by kind's own types."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.charts.copies import ROOT
from tools.controlplane.programs.go_program import ensure_go_program


def as_kind_reads(path: Path) -> Any:
    """What kind's own types make of a file, with kind's defaults; a key too many is an error."""
    program = ensure_go_program(ROOT / "tools/controlplane/kindconfig")
    ended = subprocess.run([program, path], capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def kind_config(name: str) -> Any:
    """A KinD configuration that is reached from this machine only."""
    config = as_kind_reads(ROOT / name)
    for node in config["nodes"]:
        for port in node.get("extraPortMappings", []):
            assert port["listenAddress"] == "127.0.0.1"
    return config


def test_kind_refuses_a_key_that_it_does_not_know(tmp_path: Path) -> None:
    """So a typing mistake in the files below would be seen."""
    text = (ROOT / "cluster/kind-config.yaml").read_text(encoding="utf-8")
    (tmp_path / "typo.yaml").write_text(text.replace("labels:", "lables:", 1))
    with pytest.raises(AssertionError, match=r"field lables not found in type v1alpha4\.Node"):
        as_kind_reads(tmp_path / "typo.yaml")


@pytest.mark.contract("S2-25")
def test_the_cluster_for_maps_has_the_seeds_nodes_ports_and_networks() -> None:
    config = kind_config("cluster/kind-config.yaml")
    assert config["name"] == "gpu-scheduler-cluster"
    roles = [node["role"] for node in config["nodes"]]
    assert roles == ["control-plane", *["worker"] * 4]
    assert {node["labels"]["environment"] for node in config["nodes"]} == {"gpu-enabled"}
    assert [node["labels"].get("gpu-node") for node in config["nodes"][1:]] == [
        f"node{number}" for number in range(1, 5)
    ]
    ports = [port["hostPort"] for port in config["nodes"][0]["extraPortMappings"]]
    assert ports == [30080, 30443]
    wanted = {
        "apiServerAddress": "127.0.0.1",
        "apiServerPort": 6443,
        "podSubnet": "10.244.0.0/16",
        "serviceSubnet": "10.96.0.0/12",
    }
    assert wanted.items() <= config["networking"].items()


@pytest.mark.contract("S0-1", "S0-7")
def test_the_simulated_cluster_has_a_worker_for_each_pool() -> None:
    config = kind_config("config/kind-gpu-cluster.yaml")
    assert config["name"] == "gpu-sim-cluster"
    workers = [node for node in config["nodes"] if node["role"] == "worker"]
    values = yaml.safe_load((ROOT / "config/fake-gpu-values.yaml").read_text(encoding="utf-8"))
    topology = values["topology"]
    assert [node["labels"]["node-pool"] for node in workers] == list(topology["nodePools"])
    assert topology["nodePoolLabelKey"] == "run.ai/simulated-gpu-node-pool"
    for pool in topology["nodePools"].values():
        assert pool == {"gpuProduct": "NVIDIA-H200", "gpuCount": 4, "gpuMemory": 71680}
