"""The names of all metrics have our prefix, so that no series mixes with another program's."""

from __future__ import annotations

import re
from typing import Final

import pytest
from prometheus_client import generate_latest

from scheduler.report.metrics import Metrics as SchedulerMetrics
from tests.unit.docs.sources import ROOT
from webhook.metrics import Metrics as WebhookMetrics

PREFIX: Final = "gpu_scheduler_"
WEBHOOK_PREFIX: Final = "gpu_scheduler_webhook_"
#: A metric is made with its name, or with a name behind the prefix.
MADE: Final = re.compile(r"\b(?:Counter|Gauge|Histogram|Summary|Info|Enum)\(\s*\"(\w+)\"")


def names(page: bytes) -> set[str]:
    """The names of the families, and of each sample, without the Prometheus client's own."""
    families = re.findall(r"^# TYPE (\S+)", page.decode(), re.MULTILINE)
    found = {*families, *re.findall(r"^(\w+)[ {]", page.decode(), re.MULTILINE)}
    return {name for name in found if not name.startswith("process_")}


@pytest.mark.parametrize(
    ("page", "prefix"),
    [
        pytest.param(
            generate_latest(SchedulerMetrics("gpu-scheduler").registry), PREFIX, id="scheduler"
        ),
        pytest.param(WebhookMetrics(lambda: 1.0).render(), WEBHOOK_PREFIX, id="webhook"),
    ],
)
def test_every_metric_has_the_prefix(page: bytes, prefix: str) -> None:
    found = names(page)

    assert len(found) >= 5
    assert {name for name in found if not name.startswith(prefix)} == set()


def test_no_metric_is_made_without_the_prefix() -> None:
    """Also one that no page shows before its first sample."""
    made = {
        (str(path.relative_to(ROOT)), name)
        for folder in ("scheduler", "webhook", "gpucheck")
        for path in (ROOT / folder).rglob("*.py")
        for name in MADE.findall(path.read_text(encoding="utf-8"))
    }

    assert {(path, name) for path, name in made if not name.startswith(PREFIX)} == set()
