"""The workflows: each command is a make target, and nothing a change has to pass is left out."""

from __future__ import annotations

import re
import subprocess
from typing import Any

import pytest
import yaml

from tools.charts.copies import ROOT

AS_ROOT = "sudo -E "
#: The repository's variable, as a person would write it.
REGISTRY = ("${{ vars.REGISTRY }}", "registry.example.com/team")


def workflow(name: str) -> dict[str, Any]:
    """One file of .github/workflows."""
    text = (ROOT / f".github/workflows/{name}.yaml").read_text().replace(*REGISTRY)
    told: dict[str, Any] = yaml.safe_load(text)
    return told


def runs(told: dict[str, Any]) -> list[str]:
    """The commands of all jobs."""
    return [step["run"] for job in told["jobs"].values() for step in job["steps"] if "run" in step]


WORKFLOW = workflow("ci")
RELEASE = workflow("release")
RUNS = runs(WORKFLOW)


@pytest.mark.parametrize("command", [*RUNS, *runs(RELEASE)])
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


@pytest.mark.parametrize("told", [WORKFLOW, RELEASE], ids=["ci", "release"])
def test_workflow_jobs_have_timeouts_and_read_only_rights(told: dict[str, Any]) -> None:
    assert told["permissions"] == {"contents": "read"}
    assert [name for name, job in told["jobs"].items() if "timeout-minutes" not in job] == []
    rights = [job["permissions"] for job in told["jobs"].values() if "permissions" in job]
    assert rights in ([], [{"contents": "write"}])


def test_release_publishes_everything_after_the_rehearsal() -> None:
    jobs = RELEASE["jobs"]

    assert runs(RELEASE) == [
        "make release-check",
        "make wheel",
        f"make publish REGISTRY={REGISTRY[1]}",
    ]
    assert {name for name, job in jobs.items() if job.get("needs") == "check"} == {
        "publish",
        "wheel",
    }
    last = jobs["wheel"]["steps"][-1]
    assert last["uses"].startswith("softprops/action-gh-release@")
    assert last["with"]["files"] == "dist/*.whl"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["release", "DRY_RUN=1", "VERSION=99.1.0"], id="release"),
        pytest.param(["images", "DRY_RUN=1"], id="images"),
        pytest.param(["publish", "DRY_RUN=1", f"REGISTRY={REGISTRY[1]}"], id="publish"),
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
    if "publish" in words:
        assert f"docker push {REGISTRY[1]}/gpu-scheduler:" in ended.stdout
        assert f"tools.release push {REGISTRY[1]}" in ended.stdout
    assert subprocess.run(status, cwd=ROOT, capture_output=True, check=True).stdout == before
