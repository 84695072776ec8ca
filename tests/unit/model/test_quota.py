"""Which pods a ResourceQuota counts, and when it lets one more in: as the API server does."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.quota import Quota
from scheduler.model.selector import Requirement
from tests.builders import MIG_1G, MIG_2G, pod


def quota(hard: int = 4, used: int = 0, scopes: tuple[Requirement, ...] = ()) -> Quota:
    return Quota(
        namespace="team", name="gpus", hard={MIG_1G: hard}, used={MIG_1G: used}, scopes=scopes
    )


def scope(name: str, operator: str = "Exists", *values: str) -> tuple[Requirement, ...]:
    return (Requirement(name, operator, values),)


@pytest.mark.parametrize(
    ("used", "pending", "wants", "refused"),
    [
        pytest.param(3, 0, {"1g.10gb": 1}, False, id="the-last-one"),
        pytest.param(4, 0, {"1g.10gb": 1}, True, id="full"),
        pytest.param(3, 1, {"1g.10gb": 1}, True, id="full-with-what-is-on-its-way"),
        pytest.param(3, 0, {"1g.10gb": 2}, True, id="one-of-two-too-many"),
        pytest.param(9, 0, {"2g.20gb": 1}, False, id="another-resource"),
        pytest.param(9, 0, {}, False, id="no-gpu"),
    ],
)
def test_a_pod_is_refused_once_a_resource_that_it_asks_for_is_used_up(
    used: int, pending: int, wants: dict[str, int], refused: bool
) -> None:
    problem = quota(used=used).refusal(pod(mig=wants), {MIG_1G: pending, MIG_2G: 7})

    assert (problem is not None) is refused
    if problem is not None:
        total = used + pending
        assert problem == f"ResourceQuota gpus allows 4 x 1g.10gb and {total} are used"


HIGH = {"priorityClassName": "high"}
ENDING = {"activeDeadlineSeconds": 60}


@pytest.mark.parametrize(
    ("scopes", "fields", "counted"),
    [
        pytest.param((), {}, True, id="no-scope"),
        pytest.param((), {"namespace": "other"}, False, id="another-namespace"),
        pytest.param(scope("Terminating"), {"spec": ENDING}, True, id="with-a-deadline"),
        pytest.param(scope("Terminating"), {}, False, id="without-a-deadline"),
        pytest.param(scope("NotTerminating"), {}, True, id="lasting"),
        pytest.param(scope("NotTerminating"), {"spec": ENDING}, False, id="not-lasting"),
        pytest.param(scope("BestEffort"), {"gpus": 1}, True, id="gpus-alone-are-best-effort"),
        pytest.param(scope("BestEffort"), {"requests": {"cpu": "1"}}, False, id="burstable"),
        pytest.param(scope("NotBestEffort"), {"requests": {"memory": "1"}}, True, id="memory"),
        pytest.param(scope("PriorityClass", "In", "high"), {"spec": HIGH}, True, id="its-class"),
        pytest.param(scope("PriorityClass", "In", "high"), {}, False, id="no-class"),
        pytest.param(scope("PriorityClass", "NotIn", "high"), {"spec": HIGH}, False, id="not-it"),
        pytest.param(scope("PriorityClass", "NotIn", "low"), {"spec": HIGH}, True, id="another"),
        pytest.param(scope("PriorityClass"), {"spec": HIGH}, True, id="any-class"),
        pytest.param(scope("PriorityClass", "DoesNotExist"), {}, True, id="none"),
        pytest.param(scope("FromTheFuture"), {}, False, id="a-scope-that-we-do-not-know"),
        pytest.param(
            (*scope("Terminating"), *scope("PriorityClass")), {"spec": HIGH}, False, id="one-of-two"
        ),
    ],
)
def test_a_quota_counts_the_pods_that_all_its_scopes_fit(
    scopes: tuple[Requirement, ...], fields: dict[str, Any], counted: bool
) -> None:
    assert quota(scopes=scopes).counts(pod(**fields)) is counted
