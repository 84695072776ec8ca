"""The metric of tiers that admissions looked at."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.quota import Quota
from scheduler.report.admission_metrics import count_tier_attempts
from scheduler.report.metrics import Metrics
from tests.builders import MIG_2G, node
from tests.unit.decide.admission.admission_world import World, wants_2g


def counted(asked: Any, *objects: Any, quota: Quota | None = None) -> dict[tuple[str, str], float]:
    """(tier, result) -> how often, after one admission."""
    world, metrics = World(*objects), Metrics("gpu-scheduler")
    if quota is not None:
        world.cluster.quotas.upsert(quota)
    count_tier_attempts(metrics.tier_tries, world.ask(asked))
    return {
        (sample.labels["tier"], sample.labels["result"]): sample.value
        for family in metrics.tier_tries.collect()
        for sample in family.samples
    }


def test_each_tier_counts_with_what_became_of_it() -> None:
    room = node("n", mig={"1g.10gb": 1})

    assert counted(wants_2g(), room) == {
        ("2g.20gb", "full"): 1,
        ("1g.20gb", "absent"): 1,
        ("1g.10gb", "granted"): 1,
    }


def test_tier_below_the_floor_is_counted_as_such() -> None:
    asked = wants_2g(annotations={well_known.MEMORY_FLOOR: "16Gi"})

    assert counted(asked, node("n", mig={"1g.10gb": 1}))[("1g.10gb", "floor")] == 1


def test_a_pod_above_its_own_quota_counts_as_that() -> None:
    full = Quota(namespace="team", name="q", hard={MIG_2G: 0})

    assert counted(wants_2g(), node("n", mig={"2g.20gb": 1}), quota=full) == {
        ("2g.20gb", "quota_exceeded"): 1
    }


@pytest.mark.parametrize("tier", ["9g.999gb", "1g.10gb[gpu-type=a100]"])
def test_user_texts_are_no_metric_labels(tier: str) -> None:
    """Any user may write a ladder, and a metric must not grow with that."""
    asked = wants_2g(annotations={well_known.MIG_FALLBACK: f"2g.20gb->{tier}"})

    assert {one for one, _ in counted(asked)} <= {"2g.20gb", "1g.10gb", "other"}
