"""What the README says is what happens: its YAML is played, its links and names exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from gpuctl.__main__ import main
from scheduler import config
from scheduler.model import well_known
from scheduler.model.gpu.cuda_env import CudaMode
from tools.reasons import PAGE, render

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
PROMPT = "$ gpuctl "
LINES_MAX = 220


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCKS if name == kind]


@pytest.mark.parametrize("session", blocks("console"), ids=lambda text: text.splitlines()[0][-16:])
def test_a_command_says_what_the_readme_shows(
    session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shown part is the beginning of what is said."""
    command, _, shown = session.partition("\n")
    assert command.startswith(PROMPT)
    monkeypatch.chdir(ROOT)

    result = CliRunner().invoke(main, shlex.split(command.removeprefix(PROMPT)))

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(shown)


@pytest.mark.parametrize("name", ["map", "whole-gpu", "mig"])
def test_the_examples_are_the_files_that_the_commands_name(name: str) -> None:
    folder = ROOT / "examples" / "simulate"
    page = (folder / "README.md").read_text(encoding="utf-8")

    shown = [*blocks("yaml"), *re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)]

    assert (folder / f"{name}.yaml").read_text() in shown


def test_the_configuration_shown_is_the_default_one() -> None:
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", REFERENCE, re.MULTILINE | re.DOTALL)

    assert config.parse(shown.encode()) == config.Config()
    assert set(yaml.safe_load(shown)) == set(_encoded_default())


def _encoded_default() -> dict[str, Any]:
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(config.Config())
    return built


def test_reference_tables_list_the_annotations_and_labels_in_use() -> None:
    """The names module is the only place where they are spelled."""
    exist = {
        value
        for name, value in vars(well_known).items()
        if isinstance(value, str)
        and name.isupper()
        and value.startswith(well_known.PREFIX)
        and value != well_known.PREFIX
        and not name.startswith("FORMER_")  # only read (docs/upgrade.md)
    }
    told = set(re.findall(rf"`({re.escape(well_known.PREFIX)}[a-z-]+)", REFERENCE))

    assert exist - told == set()
    assert told - exist == set()


def test_the_modes_of_the_environment_are_all_named() -> None:
    row = next(line for line in REFERENCE.splitlines() if well_known.CUDA_MODE in line)

    assert set(re.findall(r"`([a-z]+)`", row)) == {mode.value for mode in CudaMode} - {"uuid"}


def test_readme_has_limits_first_and_reference_pages_last() -> None:
    """And is short: longer texts are pages of docs/."""
    sections = re.findall(r"^## (.*)$", README, re.MULTILINE)

    assert README.index("**Does not do yet**") < README.index(f"## {sections[0]}")
    assert (sections[0], sections[-1]) == ("Try it", "Reference")
    assert len(README.splitlines()) <= LINES_MAX


@pytest.mark.parametrize("target", sorted(set(re.findall(r"^ {4}make ([a-z-]+)", README, re.M))))
def test_every_make_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.contract("S2-B14")
def test_the_rights_are_no_more_than_the_docs_admit() -> None:
    """No node is written, no Secret or ConfigMap read, no controller changed.

    Admission policies let it delete pods without a node, and pods that it preempts; for what else
    runs there is only the Eviction API.
    """
    rules = [
        rule
        for file in ("rbac.yaml", "rbac-migrations.yaml", "rbac-preemption.yaml")
        for document in yaml.safe_load_all((ROOT / "cluster" / file).read_text())
        for rule in document.get("rules", ())
    ]
    rights = {
        (kind, verb) for rule in rules for kind in rule["resources"] for verb in rule["verbs"]
    }

    assert {kind for kind, _ in rights}.isdisjoint({"secrets", "configmaps", "*"})
    assert {verb for _, verb in rights}.isdisjoint({"deletecollection", "*"})
    assert {kind for kind, verb in rights if verb == "delete"} == {
        "pods",
        "podmigrations",
        "resourceclaims",  # those that it created
        "migrules",  # of a former version (docs/upgrade.md)
    }
    owners = {"deployments", "replicasets", "statefulsets", "jobs", "poddisruptionbudgets"}
    assert {verb for kind, verb in rights if kind in owners} == {"get", "list", "watch"}
    policies = (ROOT / "cluster" / "fencing-policy.yaml").read_text()
    assert "!variables.isBound || variables.isPreempted" in policies
    assert {verb for kind, verb in rights if kind in ("nodes", "namespaces")} == {
        "get",
        "list",
        "watch",
    }


def test_the_page_of_reasons_is_fresh() -> None:
    """Run `python -m tools.reasons` after a change of the codes."""
    assert PAGE.read_text(encoding="utf-8") == render()
