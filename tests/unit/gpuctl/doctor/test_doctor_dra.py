"""What the doctor says of DeviceTaintRules, and how it reads them."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.doctor.checks import examine
from gpuctl.doctor.facts import Dra, Right, TaintRules, Unread
from gpuctl.doctor.finding import Level
from tests.unit.gpuctl.doctor.wellcluster import facts

UNREADABLE = Right(verb="list", resource="devicetaintrules", group="resource.k8s.io")


@pytest.mark.parametrize(
    ("changes", "level", "says"),
    [
        pytest.param({}, Level.OK, "read from resource.k8s.io/v1", id="v1"),
        pytest.param(
            {"taint_rules": TaintRules("v1beta2")},
            Level.OK,
            "read from resource.k8s.io/v1beta2",
            id="v1beta2",
        ),
        pytest.param(
            {"taint_rules": TaintRules("")},
            Level.OK,
            "no DeviceTaintRules (Kubernetes 1.37): only drivers can taint devices",
            id="not-served",
        ),
        pytest.param(
            {"missing_rights": (UNREADABLE,)},
            Level.WARN,
            "may not read DeviceTaintRules: pods get the devices that these taint",
            id="no-right",
        ),
        pytest.param(
            {"taint_rules": TaintRules("v1alpha3", ("slow", "old"))},
            Level.WARN,
            "not read, so pods get the devices that they taint: slow, old",
            id="by-class",
        ),
        pytest.param({"taint_rules": Unread("no")}, Level.WARN, "no", id="unread"),
    ],
)
def test_taint_rules_are_read_or_named_with_the_consequence(
    changes: dict[str, Any], level: Level, says: str
) -> None:
    (found,) = [one for one in examine(facts(**changes)) if one.about == "taint rules"]

    assert found.level is level
    assert says in found.says


def test_an_older_server_drops_fields() -> None:
    (found,) = [one for one in examine(facts(version=(1, 35))) if one.about == "dra fields"]

    assert (found.level, found.advice) == (Level.OK, "")
    assert "before 1.36) drops the fields for extended resources, MIG partitions" in found.says
    assert "dra fields" not in {one.about for one in examine(facts())}


def test_without_dra_nothing_is_said_of_taint_rules() -> None:
    found = examine(facts(dra=Dra(False), taint_rules=TaintRules("")))

    assert [one for one in found if one.about == "taint rules"] == []
