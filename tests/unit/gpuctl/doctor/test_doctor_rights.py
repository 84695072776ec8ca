"""What the doctor says about rights: of the user, and of the scheduler's account."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpuctl.doctor.checks import examine
from gpuctl.doctor.facts import Right, Unread
from gpuctl.doctor.finding import Level
from gpuctl.doctor.rights import rights, rights_of_moves, rights_of_preemption
from tests.unit.gpuctl.doctor.wellcluster import facts

ROOT = Path(__file__).parents[4]


def test_missing_rights_of_the_user_are_one_line() -> None:
    lacking = {
        "nodes": Unread("nodes is forbidden: User ...", "list nodes"),
        "pods": Unread("pods is forbidden: User ...", "list pods"),
        "quotas": Unread("...", "list resourcequotas"),
        "leader": Unread("...", "get leases.coordination.k8s.io"),
        "missing_rights": Unread("...", "create subjectaccessreviews.authorization.k8s.io"),
    }
    [bad] = [one for one in examine(facts(**lacking)) if one.level is not Level.OK]

    assert (bad.level, bad.about) == (Level.WARN, "rights")
    assert bad.says.startswith("no right to get leases.coordination.k8s.io, list ")
    assert bad.says.endswith("and 2 more")
    assert bad.advice == "ask an admin: 5 checks left out"


HOME = "gpu-scheduler-system"


@pytest.mark.parametrize(
    ("missing", "result"),
    [
        pytest.param(tuple(rights_of_moves(HOME)), "has no right to migrate pods", id="off"),
        pytest.param(
            tuple(one for one in rights_of_moves(HOME) if one not in rights_of_preemption()),
            "has no right to migrate pods",
            id="off-with-preemption",
        ),
        pytest.param(tuple(rights_of_moves(HOME)[:1]), "may only report migrations", id="report"),
    ],
)
def test_moves_that_are_switched_off_are_told_and_no_fault(
    missing: tuple[Right, ...], result: str
) -> None:
    (found,) = [one for one in examine(facts(missing_for_moves=missing)) if one.about == "moves"]

    assert found.level is Level.OK
    assert result in found.says


@pytest.mark.parametrize(
    ("file", "questions"),
    [
        pytest.param("rbac.yaml", rights(HOME, "gpu-scheduler"), id="always"),
        pytest.param("rbac-migrations.yaml", rights_of_moves(HOME), id="moves"),
        pytest.param("rbac-preemption.yaml", rights_of_preemption(), id="preemption"),
    ],
)
def test_the_rights_asked_for_are_those_of_the_shipped_roles(
    file: str, questions: list[Right]
) -> None:
    shipped = set()
    for each in yaml.safe_load_all((ROOT / "cluster" / file).read_text()):
        space = each["metadata"].get("namespace", "")
        for rule in each.get("rules", ()):
            shipped |= {
                (group, kind, verb, space, name)
                for group in rule["apiGroups"]
                for kind in rule["resources"]
                for verb in rule["verbs"]
                for name in rule.get("resourceNames", [""])
            }
    asked = {
        (
            one.group,
            f"{one.resource}/{one.subresource}".rstrip("/"),
            one.verb,
            one.namespace,
            one.name,
        )
        for one in questions
    }

    assert asked == shipped
