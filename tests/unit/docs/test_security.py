"""docs/security.md says of every right that is shipped what it is for, and invents none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
POLICIES = ("admission-policies.yaml", "fencing-policy.yaml", "preemption-policy.yaml")

Row = tuple[str, frozenset[str], frozenset[str]]


def section(title: str) -> list[list[str]]:
    """The cells of the table below a heading that begins so."""
    text = re.search(rf"^## {re.escape(title)}.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert text, f"no section {title}"
    lines = [line for line in text[0].splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def shipped(file: str) -> set[Row]:
    """Where, on what and what may be done, of every rule."""
    found = set()
    for each in yaml.safe_load_all((ROOT / file).read_text(encoding="utf-8")):
        space = "its namespace" if each["metadata"].get("namespace") else "cluster"
        for rule in each.get("rules", ()):
            (group,) = rule["apiGroups"]
            kinds = (f"{group}/{kind}".lstrip("/") for kind in rule["resources"])
            named = "".join(f", `{name}`" for name in rule.get("resourceNames", ()))
            found.add((space + named, frozenset(kinds), frozenset(rule["verbs"])))
    return found


@pytest.mark.parametrize(
    "file",
    [
        "cluster/rbac.yaml",
        "cluster/rbac-migrations.yaml",
        "cluster/rbac-preemption.yaml",
        "cluster/rbac-groups.yaml",
        "cluster/rbac-relabel.yaml",
        "cluster/rbac-teams.yaml",
    ],
)
def test_role_table_equals_the_role(file: str) -> None:
    told = {
        (where, frozenset(re.findall(r"`([^`]+)`", kinds)), frozenset(verbs.split(", ")))
        for where, kinds, verbs, _why, _taken_over in section(file)
    }

    assert told == shipped(file)
    assert all(why and taken_over for *_, why, taken_over in section(file))


def test_every_admission_policy_is_documented() -> None:
    names = {
        each["metadata"]["name"].removeprefix("gpu-scheduler-")
        for file in POLICIES
        for each in yaml.safe_load_all((ROOT / "cluster" / file).read_text(encoding="utf-8"))
        if each["kind"] == "ValidatingAdmissionPolicy"
    }

    rows = section("Admission policies of the API server")
    assert {cells[0].strip("`") for cells in rows} == names
