"""Advice that depends on several facts, and waits that need none."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.doctor.checks import examine
from gpuctl.doctor.facts import Leader, PodsSeen, Waiting
from gpuctl.doctor.finding import Level
from tests.unit.gpuctl.doctor.wellcluster import facts


@pytest.mark.parametrize(
    ("leader", "kinds", "advice"),
    [
        pytest.param(None, (), {"helm install"}, id="nothing-is-installed"),
        pytest.param(facts().leader, ("podmigrations",), {"helm upgrade"}, id="an-older-release"),
    ],
)
def test_missing_installation_is_told_from_an_old_one(
    leader: Leader | None, kinds: tuple[str, ...], advice: set[str]
) -> None:
    changes: dict[str, Any] = {"leader": leader, "kinds": kinds}
    if leader is None:
        changes["webhook"] = None
    bad = [one for one in examine(facts(**changes)) if one.level is not Level.OK]

    assert {" ".join(one.advice.split()[:2]) for one in bad} == advice


def test_pods_that_wait_for_a_moment_are_no_warning() -> None:
    pods = PodsSeen(count=9, waiting=Waiting(1, 4, (("NO_ANSWER", 1),)))
    [found] = [one for one in examine(facts(pods=pods)) if one.about == "pods"]

    assert (found.level, found.says) == (Level.OK, "1 waits, oldest 4s, 1 NO_ANSWER")
