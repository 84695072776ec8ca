"""The README's box "Does not do yet": the simulator runs the scheduler's code, and agrees."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from gpuctl.simulate.input import Report, simulate
from gpuctl.simulate.manifests import read
from scheduler.config import Config, Maps
from tests.unit.docs.sources import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
(BOX,) = re.findall(r"^> \*\*Does not do yet\*\*\n((?:>.*\n)+)", README, re.MULTILINE)
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node"},
    "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"}},
}


def simulated(tmp_path: Path, annotations: dict[str, str], **spec: Any) -> Report:
    """One pod with one GPU on a node that has room for it."""
    container = {
        "name": "app",
        "image": "nvidia/cuda:12.4.1-base-ubuntu22.04",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pod-0", "annotations": annotations},
        "spec": {"schedulerName": "gpu-scheduler", "containers": [container], **spec},
    }
    file = tmp_path / "input.yaml"
    file.write_text(yaml.safe_dump_all([NODE, pod]), encoding="utf-8")
    return simulate(read([str(file)]), Config(maps=Maps(allow="all")))


def test_the_box_has_one_item_for_each_test_here() -> None:
    items = re.findall(r"^> - ([\w ]+)", BOX, re.MULTILINE)

    assert items == ["Gangs", "Queues of Jobs", "Exact GPUs with NVIDIA"]


def test_pod_of_a_volcano_group_is_placed_alone_by_default(tmp_path: Path) -> None:
    (row,) = simulated(tmp_path, {"scheduling.volcano.sh/group-name": "gang"}).rows

    assert "KAI Scheduler and Grove are read only with the setting `gang.sources`" in BOX
    assert row.node == "node"


def test_map_on_counted_gpus_decides_only_the_node(tmp_path: Path) -> None:
    (row,) = simulated(tmp_path, {"gpu-scheduling-map": "0=node:3"}).rows

    assert row.node == "node"
    assert row.devices == "gpu x 1"


def test_charts_install_no_api_kind_of_a_queue() -> None:
    kinds = {
        yaml.safe_load(path.read_text())["spec"]["names"]["kind"]
        for path in (ROOT / "charts/gpu-scheduler/files/cluster").glob("crd-*.yaml")
    }

    assert kinds == {"MigPartition", "PodMigration"}
