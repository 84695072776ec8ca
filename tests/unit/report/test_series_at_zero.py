"""Series that alerts read exist before their first event: increase() needs a former value."""

from __future__ import annotations

import pytest

from scheduler.model.crd.migration import MigrationKind
from scheduler.model.crd.migration_result import MigrationResult
from scheduler.report.containment import Containment
from scheduler.report.events.migration_events import MigrationEvents
from scheduler.report.metrics import Metrics


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
