"""Series that alerts read exist before their first event: increase() needs a former value."""

from __future__ import annotations

import pytest

from scheduler.controllers.mig.mig_partition import RESULTS
from scheduler.model.crd.migration import MigrationKind
from scheduler.model.crd.migration_result import MigrationResult
from scheduler.report.containment import Containment
from scheduler.report.events.migration_events import MigrationEvents
from scheduler.report.metrics import Metrics
from scheduler.state.event import BindOutcome
from tests.unit.loop.loop_world import Stage


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("gpu-scheduler")


def test_migration_results_begin_at_zero(metrics: Metrics) -> None:
    MigrationEvents(metrics)

    for kind in MigrationKind:
        for result in MigrationResult:
            labels = {"type": kind.value, "result": result.label}
            found = metrics.registry.get_sample_value("gpu_scheduler_migrations_total", labels)
            assert found == 0.0


def test_contained_errors_begin_at_zero(metrics: Metrics) -> None:
    Containment(metrics)

    parts = ("admission", "decision", "event", "move", "tick")
    name = "gpu_scheduler_internal_errors_total"
    assert {metrics.registry.get_sample_value(name, {"part": part}) for part in parts} == {0.0}


def test_results_of_attempts_begin_at_zero(metrics: Metrics) -> None:
    name = "gpu_scheduler_schedule_attempts_total"
    found = {
        metrics.registry.get_sample_value(name, {"result": one, "profile": "gpu-scheduler"})
        for one in ("scheduled", "unschedulable", "error")
    }
    assert found == {0.0}


def test_results_of_bindings_and_partitions_begin_at_zero() -> None:
    value = Stage().metrics.registry.get_sample_value

    for outcome in BindOutcome:
        assert value("gpu_scheduler_binds_total", {"result": outcome.value}) == 0.0
    for result in RESULTS:
        assert value("gpu_scheduler_mig_partitions_total", {"result": result}) == 0.0
