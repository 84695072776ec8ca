"""What an older API server lacks is one line each, with the consequence, and no problem."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.doctor.checks import examine
from gpuctl.doctor.facts import Unread
from gpuctl.doctor.finding import Level
from tests.unit.gpuctl.doctor.wellcluster import facts

MISSING = {"features", "device status"}


@pytest.mark.parametrize(
    ("changes", "about", "says"),
    [
        pytest.param(
            {"served": frozenset(("validatingadmissionpolicies",))},
            "features",
            "no MutatingAdmissionPolicy (Kubernetes 1.36): the chart's nodePartition adds no",
            id="mutating policies",
        ),
        pytest.param(
            {"version": (1, 35)},
            "device status",
            "kubelets do not report the devices of pods (Kubernetes 1.36): no events GpuFailed",
            id="device status",
        ),
    ],
)
def test_a_missing_feature_is_one_line_with_its_consequence(
    changes: dict[str, Any], about: str, says: str
) -> None:
    (found,) = [one for one in examine(facts(**changes)) if one.about == about and says in one.says]

    assert (found.level, found.advice) == (Level.OK, "")


def test_nothing_is_missing_on_the_newest_version() -> None:
    assert {one.about for one in examine(facts())} & MISSING == set()


def test_unread_discovery_is_a_warning() -> None:
    found = [one for one in examine(facts(served=Unread("no"))) if one.about == "features"]

    assert [one.level for one in found] == [Level.WARN]
