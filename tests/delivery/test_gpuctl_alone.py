"""``pipx install 'gpu-scheduler[cli] @ WHEEL'``: the wheel with the packages of this extra."""

from __future__ import annotations

import shlex
import shutil

import pytest

from tests.console_sessions import Step, steps
from tests.delivery.wheel_environment import Environment, installed
from tools.charts.copies import ROOT
from tools.release import present

PAGES = [ROOT / "README.md", *sorted((ROOT / "examples").glob("*/README.md"))]
SESSIONS = [
    step
    for page in PAGES
    for step in steps(page.read_text(encoding="utf-8"))
    if step.command.startswith("gpuctl simulate ")
]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = installed(tmp_path_factory.mktemp("alone"))
    made.link("cli")
    shutil.copytree(ROOT / "examples", made.directory / "examples")
    return made


@pytest.mark.parametrize("package", ["grpc", "cel_expr_python", "pytest", "tools"])
def test_packages_of_other_extras_are_not_in_the_environment(
    alone: Environment, package: str
) -> None:
    assert alone.run("python", "-c", f"import {package}").returncode == 1


def test_gpuctl_prints_the_version_of_the_charts(alone: Environment) -> None:
    assert alone.gpuctl("--version") == f"gpuctl, version {present()}\n"


@pytest.mark.parametrize("command", ["simulate", "demo", "why", "doctor"])
def test_gpuctl_command_prints_its_help(alone: Environment, command: str) -> None:
    assert f"gpuctl {command}" in alone.gpuctl(command, "--help")


@pytest.mark.parametrize("step", SESSIONS, ids=lambda step: step.command[-24:])
def test_documented_simulation_prints_what_its_page_shows(alone: Environment, step: Step) -> None:
    shown = "\n".join(step.shown)

    assert alone.gpuctl(*shlex.split(step.command)[1:]).startswith(shown)


def test_gpuctl_without_the_extra_names_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    bare = installed(tmp_path_factory.mktemp("bare"))

    ended = bare.run("gpuctl", "--version")

    assert ended.returncode == 1
    command = "pipx install 'gpu-scheduler[cli] @ WHEEL'"
    assert ended.stderr == f"gpuctl: install the wheel with its extra cli: {command}\n"
