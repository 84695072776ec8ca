"""The playbook: the seed's tags and variables, commands that exist, the two files it writes."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.charts.copies import ROOT

FOLDER = ROOT / "ansible"
(PLAY,) = yaml.safe_load((FOLDER / "playbook.yml").read_text(encoding="utf-8"))
TASKS: list[dict[str, Any]] = PLAY["tasks"]
VARIABLES: dict[str, Any] = yaml.safe_load((FOLDER / "group_vars/all.yml").read_text("utf-8"))
#: What kubectl answers: pods on two of the nodes, and one that has no node yet.
KUBECTL = """#!/bin/sh
case "$*" in
  "get pod -o wide -A") echo "NAMESPACE NAME NODE"; echo "tests check-2 w3" ;;
  *"get nodes"*) printf 'w3 w4' ;;
  *"get pods"*) printf 'check-0 w1\\ncheck-2 w3\\ncheck-3 w4\\ncheck-9 \\n' ;;
  *"logs check-2") echo "Node: w3, CUDA_VISIBLE_DEVICES: 0,1,2" ;;
  *"logs check-3") exit 1 ;;
  *) echo "not expected: $*" >&2; exit 64 ;;
esac
"""


@pytest.mark.contract("S2-27")
def test_the_seeds_tags_and_variables_are_there() -> None:
    tags = {tag for task in TASKS for tag in task["tags"]}

    assert tags - {"never"} == {
        *("prerequisites", "cluster", "build", "scheduler", "test"),
        *("argocd", "gitops", "output"),
    }
    assert VARIABLES["use_local_images"] is False
    assert VARIABLES["image_registry"] == "", "no foreign registry"
    times = {name: VARIABLES[name] for name in ("scheduler_timeout", "cluster_timeout")}
    assert times == {"scheduler_timeout": "120s", "cluster_timeout": "300s"}
    assert VARIABLES["pod_stabilization_wait"] == 30
    assert (VARIABLES["log_retries"], VARIABLES["log_retry_delay"]) == (3, 10)


def test_every_command_and_every_variable_of_a_task_exists() -> None:
    known = {*VARIABLES, *PLAY["vars"], "playbook_dir"}
    text = (FOLDER / "playbook.yml").read_text(encoding="utf-8")
    used = {
        word
        for each in re.findall(r"\{\{(.*?)\}\}", text)
        for word in re.findall(r"^ *(\w+)", each)
    }
    paths = re.findall(r"\{\{ root \}\}/([\w./-]+)", text)

    assert used <= known
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    scripts = [path for path in paths if path.endswith(".sh")]
    assert all(os.access(ROOT / path, os.X_OK) for path in scripts)


@pytest.mark.contract("S2-27")
def test_outputs_list_pod_nodes_and_the_logs_of_two_nodes(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL)
    program.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "OUTPUTS": str(tmp_path / "outputs"),
        "RETRIES": "2",
        "PAUSE": "0",
    }

    subprocess.run(
        [ROOT / "scripts/write-outputs.sh"], env=environment, check=True, capture_output=True
    )

    pods = (tmp_path / "outputs/kubectl-get-pods-wide.txt").read_text()
    assert pods == "NAMESPACE NAME NODE\ntests check-2 w3\n"
    assert (tmp_path / "outputs/logs-node3-node4.txt").read_text() == (
        "=== Logs from test pods on nodes 3 and 4 ===\n"
        "=== Pod: check-2 on Node: w3 ===\n"
        "Node: w3, CUDA_VISIBLE_DEVICES: 0,1,2\n"
        "=== Pod: check-3 on Node: w4 ===\n"
        "(no log)\n"
    )
