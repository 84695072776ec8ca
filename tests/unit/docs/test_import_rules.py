"""The rules in .importlinter catch what they are there to catch.

A rule that matches nothing is silent for ever. So a copy of the tree gets one illegal import
per rule, and each rule has to name the import that breaks it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("scheduler", "webhook", "fakegpu", "gpucheck", "gpuctl", "tools")

# file that breaks a rule, what it says, and the line by which import-linter must report it
STRAYS = [
    pytest.param(
        "scheduler/decide/stray.py",
        "import time",
        "scheduler.decide.stray -> time",
        id="the-core-reads-a-clock",
    ),
    pytest.param(
        "scheduler/state/stray.py",
        "import scheduler.decide",
        "scheduler.state.stray -> scheduler.decide",
        id="state-looks-up-to-decide",
    ),
    pytest.param(
        "scheduler/watch/stray.py",
        "import scheduler.bind",
        "scheduler.watch.stray -> scheduler.bind",
        id="bytes-in-know-effects-out",
    ),
    pytest.param(
        "webhook/mutate/json_patch.py",
        "import logging",
        "webhook.mutate.json_patch -> logging",
        id="what-the-mutation-uses-does-io",
    ),
    pytest.param(
        "scheduler/bind/stray.py",
        "import kubernetes",
        "scheduler.bind.stray -> kubernetes",
        id="the-typed-client-spreads",
    ),
    pytest.param(
        "scheduler/report/stray.py",
        "import webhook",
        "scheduler.report.stray -> webhook",
        id="the-scheduler-needs-the-webhook",
    ),
    pytest.param(
        "webhook/stray.py",
        "import scheduler.state",
        "webhook.stray -> scheduler.state",
        id="the-webhook-looks-for-itself",
    ),
    pytest.param(
        "fakegpu/node/stray.py",
        "import random",
        "fakegpu.node.stray -> random",
        id="a-fake-nodes-face-takes-chances",
    ),
    pytest.param(
        "fakegpu/topology/stray.py",
        "import fakegpu.node",
        "fakegpu.topology.stray -> fakegpu.node",
        id="what-there-is-looks-up-to-the-nodes-face",
    ),
    pytest.param(
        "fakegpu/stray.py",
        "import scheduler.decide",
        "fakegpu.stray -> scheduler.decide",
        id="the-fake-gpus-know-how-it-is-decided",
    ),
    pytest.param(
        "gpuctl/stray.py",
        "import webhook.stray",
        "gpuctl.stray -> webhook.stray",
        id="the-command-line-runs-the-webhook",
    ),
    pytest.param(
        "gpuctl/stray_tools.py",
        "import tools.contracts",
        "gpuctl.stray_tools -> tools.contracts",
        id="the-product-needs-a-tool",
    ),
    pytest.param(
        "gpuctl/simulate/result.py",
        "import gpuctl.output.table",
        "gpuctl.simulate.result -> gpuctl.output.table",
        id="the-simulator-prints",
    ),
    pytest.param(
        "gpuctl/output/text.py",
        "import gpuctl.output.replay",
        "No cycles are allowed in gpuctl.output.",
        id="two-modules-import-each-other",
    ),
    pytest.param(
        "gpucheck/stray.py",
        "import msgspec",
        "gpucheck.stray -> msgspec",
        id="gpucheck-needs-a-package",
    ),
    pytest.param(
        "scheduler/stray.py",
        "",
        "- scheduler.stray\n",
        id="a-new-module-has-no-place",
    ),
    pytest.param(
        "fakegpu/placeless.py",
        "",
        "- fakegpu.placeless\n",
        id="a-new-module-of-fakegpu-has-no-place",
    ),
]


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-logo", "--no-cache"], cwd=tree, capture_output=True, text=True, check=False
    )


def copy_of_the_tree(target: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, target / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / ".importlinter", target)
    return target


@pytest.fixture(scope="module")
def report_of_strays(tmp_path_factory: pytest.TempPathFactory) -> str:
    tree = copy_of_the_tree(tmp_path_factory.mktemp("strays"))
    for stray in STRAYS:
        file, line = str(stray.values[0]), str(stray.values[1])
        with (tree / file).open("a", encoding="utf-8") as code:
            code.write(f"{line}\n")
    result = lint(tree)

    assert result.returncode != 0
    return result.stdout


def test_current_tree_keeps_every_import_rule(tmp_path: Path) -> None:
    result = lint(copy_of_the_tree(tmp_path))

    assert "0 broken" in result.stdout, result.stdout + result.stderr
    assert result.returncode == 0


@pytest.mark.parametrize(("file", "line", "reported"), STRAYS)
def test_an_illegal_import_is_named(
    report_of_strays: str, file: str, line: str, reported: str
) -> None:
    assert reported in report_of_strays, f"{file} saying {line!r} went unnoticed"


CORE = (
    "scheduler/model",
    "scheduler/state",
    "scheduler/decide",
    "webhook/mutate",
    "fakegpu/catalog",
    "fakegpu/node",
    "fakegpu/topology",
)
IMPURE = (
    "datetime.datetime.now()",
    "datetime.datetime.now(datetime.UTC)",
    "datetime.datetime.utcnow()",
    "datetime.datetime.today()",
    "datetime.date.today()",
    "datetime.datetime.fromtimestamp(0.0)",
    "uuid.uuid1()",
    "uuid.uuid4()",
)
PURE = (
    "datetime.datetime.fromtimestamp(0.0, datetime.UTC)",
    "uuid.uuid5(uuid.NAMESPACE_DNS, 'a')",
)


def ruff(folder: str, code: str) -> str:
    """What ruff reports of code that lies in a folder."""
    program = Path(sys.executable).with_name("ruff")
    words = ["check", "--quiet", "--output-format=concise", "--stdin-filename"]
    text = f"import datetime\nimport uuid\n\nVALUE = {code}, datetime, uuid\n"
    return subprocess.run(
        [program, *words, f"{folder}/stray.py", "-"],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    ).stdout


@pytest.mark.parametrize("folder", CORE)
def test_impure_functions_are_refused_in_the_core(folder: str) -> None:
    """The modules are allowed there; what reads a clock or draws a number is not."""
    reports = {code: ruff(folder, code) for code in IMPURE}

    missed = [code for code, report in reports.items() if not {"TID251", "DTZ006"} & words(report)]
    assert missed == []
    assert [ruff(folder, code) for code in PURE] == ["", ""]


def words(report: str) -> set[str]:
    """The codes of a report."""
    return set(report.split())
