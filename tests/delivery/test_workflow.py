"""The CI workflow: each command is a make target, and nothing a change has to pass is left out."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from tools.charts.copies import ROOT

AS_ROOT = "sudo -E "
WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yaml").read_text())
RUNS = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("command", RUNS)
@pytest.mark.contract("S2-28")
def test_a_command_of_the_workflow_is_a_make_target_that_exists(command: str) -> None:
    """Make itself says so: with -n it plans the target, and runs nothing of it."""
    plain = command.removeprefix(AS_ROOT)
    assert re.fullmatch(r"make [a-z0-9-]+( [A-Z_]+=\S+)*", plain)

    planned = subprocess.run(
        [*plain.split(), "-n"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert planned.returncode == 0, planned.stderr


@pytest.mark.contract("S2-28", "S2-31")
def test_workflow_lints_tests_scans_and_builds_the_sbom() -> None:
    targets = {command.removeprefix(AS_ROOT).split()[1] for command in RUNS}
    stages = re.findall(r"^stage \w+ make (.+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    gate = {word for stage in stages for word in stage.split() if not word.startswith("-")}

    assert {"scan", "sbom", "images", "package", "release"} <= targets
    test = re.search(r"^test: (.*?) ##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert test, "make test is made of other targets"
    assert set(test[1].split()) <= gate
    assert gate - {"venv"} <= targets


def test_workflow_jobs_have_timeouts_and_read_only_rights() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert [name for name, job in WORKFLOW["jobs"].items() if "timeout-minutes" not in job] == []


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["release", "DRY_RUN=1", "VERSION=99.1.0"], id="release"),
        pytest.param(["images", "DRY_RUN=1"], id="images"),
        pytest.param(["scan", "DRY_RUN=1"], id="scan"),
    ],
)
def test_a_dry_run_prints_its_commands(words: list[str]) -> None:
    """And leaves the tree as it was."""
    status = ["git", "status", "--porcelain", "CHANGELOG.md", "changes", "charts", "pyproject.toml"]
    before = subprocess.run(status, cwd=ROOT, capture_output=True, check=True).stdout

    ended = subprocess.run(
        ["make", "-s", *words], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )

    assert "\n+ " in f"\n{ended.stdout}"
    if "release" in words:
        assert "## 99.1.0" not in (ROOT / "CHANGELOG.md").read_text()
        assert "docker build --tag gpu-scheduler:99.1.0" in ended.stdout
    assert subprocess.run(status, cwd=ROOT, capture_output=True, check=True).stdout == before
