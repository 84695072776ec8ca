"""``gpuctl simulate`` on what kubectl reads of a cluster: the pods get what the scheduler gives."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from tests.controlplane.conftest import MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.workloads import pod
from tests.dra import claiming
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import ControlPlane

KINDS = "nodes,namespaces,pods,resourceslices,deviceclasses,resourceclaims,resourceclaimtemplates"


def test_pods_get_simulated_devices(
    here: Devices, cp: ControlPlane, kwok_node: MakeNode, tmp_path: Path
) -> None:
    """One device is in use by a running pod, and one pod of two must wait."""
    here.publish(kwok_node("sim-1"), "gpu-0", "gpu-1")
    here.template("one-gpu")
    here.user("a", template="one-gpu")
    here.wait_bound(1)
    wanted = [pod(name, **claiming(templates={"gpu": "one-gpu"})) for name in "bc"]
    dump, more = tmp_path / "cluster.yaml", tmp_path / "pods.yaml"
    dump.write_text(cp.kubectl("get", "-A", "-o", "yaml", KINDS))
    more.write_text(yaml.safe_dump_all(wanted))

    files = [str(dump), str(more)]
    done = gpuctl("simulate", "-n", here.namespace, "-o", "json", *files)

    assert done.status == 0, done.err
    placed = {row["pod"]: (row["node"], row["devices"]) for row in json.loads(done.out)}
    [left] = {"sim-1/gpu-0", "sim-1/gpu-1"} - {*here.given("a")}
    assert placed["b"] == ("sim-1", f"claim:{left.partition('/')[2]}")
    assert placed["c"] == (None, None)

    here.create(wanted[0])
    here.wait_bound(2)
    assert here.given("b") == [left]
