"""The wheel: every gpuctl command runs from it in an environment without the checkout."""

from __future__ import annotations

import ast
import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gpuctl.__main__ import COMMANDS
from gpuctl.commands.demo import NEEDS
from tests.builders import dynamic, pod
from tests.delivery.wheel_environment import PACKAGES, Environment, installed
from tests.unit.gpuctl.test_defrag import fragmented, snapshot
from tools.charts.copies import ROOT

#: Top-level packages of the repository; an import of one of them must resolve inside the wheel.
OURS: Final = (*PACKAGES, "tools", "tests", "bench")
MANIFESTS: Final = """\
{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {nvidia.com/gpu: "1"}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  schedulerName: gpu-scheduler
  containers: [{name: c, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = installed(tmp_path_factory.mktemp("wheel"))
    # The dependencies come from this environment. Python ignores .pth files in a directory that a
    # .pth file adds, so the editable installation of the checkout is not on the path.
    path = made.packages / "dependencies.pth"
    path.write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return made


def test_the_checkout_is_not_on_the_path(environment: Environment) -> None:
    code = "import gpuctl, scheduler, sys; print(gpuctl.__file__, scheduler.__file__, *sys.path)"

    shown = environment.run("python", "-c", code).stdout.split()

    assert all(Path(entry).is_relative_to(environment.packages) for entry in shown[:2])
    assert str(ROOT) not in shown


def test_every_import_resolves_inside_the_wheel(environment: Environment) -> None:
    files = [
        file for package in PACKAGES for file in (environment.packages / package).rglob("*.py")
    ]

    missing = {
        f"{file.relative_to(environment.packages)}: {name}"
        for file in files
        for name in imported(file)
        if name.partition(".")[0] in OURS and not is_there(environment.packages, name)
    }

    assert len(files) > 300
    assert missing == set()


def test_every_module_can_be_imported(environment: Environment) -> None:
    modules = [
        ".".join(file.relative_to(environment.packages).with_suffix("").parts)
        for package in PACKAGES
        for file in (environment.packages / package).rglob("*.py")
        if file.name != "__main__.py"
    ]
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"

    result = environment.run("python", "-c", code, *modules)

    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_its_help(environment: Environment, command: str) -> None:
    assert f"gpuctl {command}" in environment.gpuctl(command, "--help")


def test_gpuctl_lists_its_commands_and_version(environment: Environment) -> None:
    shown = environment.gpuctl("--help")

    assert all(f"\n  {command} " in shown for command in COMMANDS)
    assert "version" in environment.gpuctl("--version")
    assert environment.run("kubectl-gpu_scheduler", "--help").returncode == 0


@pytest.mark.parametrize("program", ["scheduler", "webhook", "fakegpu"])
def test_every_program_shows_its_help(environment: Environment, program: str) -> None:
    result = environment.run("python", "-m", program, "--help")

    assert result.returncode == 0, result.stderr
    assert program in result.stdout


@pytest.mark.parametrize("output", ["table", "json", "picture", "svg"])
def test_simulate_places_a_pod(environment: Environment, output: str) -> None:
    file = environment.directory / "input.yaml"
    file.write_text(MANIFESTS, encoding="utf-8")

    assert "n" in environment.gpuctl("simulate", file, "-o", output)


def test_replay_and_defrag_read_a_snapshot(environment: Environment, tmp_path: Path) -> None:
    pending = snapshot(tmp_path, dynamic("a"), waiting=pod("big", mig={"3g.40gb": 1}))
    replayed = json.loads(environment.gpuctl("replay", pending, "-o", "json"))
    assert [one["pod"] for one in replayed] == ["team/big"]
    assert "1 of 1 decisions are the same" in environment.gpuctl("replay", pending, "--check")

    plan = environment.gpuctl("defrag", "team/big", "--from", fragmented(tmp_path))
    assert "after 1 restart" in plan


@pytest.mark.parametrize(
    "words",
    [("why", "p"), ("top",), ("free",), ("snapshot",), ("doctor",), ("defrag", "team/big")],
    ids=lambda words: words[0],
)
def test_a_command_without_a_cluster_fails_with_one_line(
    environment: Environment, words: tuple[str, ...]
) -> None:
    result = environment.run("gpuctl", *words, "--kubeconfig", "missing")

    assert result.returncode == 1
    assert result.stderr == f"gpuctl {words[0]}: missing: no such kubeconfig file\n"


def test_demo_names_the_checkout_that_it_needs(environment: Environment) -> None:
    result = environment.run("gpuctl", "demo", "--keep")

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"gpuctl demo: {NEEDS}\n"


def imported(file: Path) -> Iterator[str]:
    """Every module that a file imports, late and for type checking too."""
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def is_there(packages: Path, module: str) -> bool:
    """Whether a module or a package of this name is installed."""
    path = packages.joinpath(*module.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()
