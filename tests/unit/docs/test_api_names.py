"""The names that users see: API kinds, metrics, reason codes, event reasons, JSON fields.

A former name may stand in the table of docs/upgrade.md and in its note in changes/, and what reads
the objects of a build with the former names may name those; nowhere else.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import msgspec
import pytest
import yaml
from prometheus_client import CollectorRegistry

from scheduler.decide.score_breakdown import NodeScore
from scheduler.plugins import REASON_CODES
from scheduler.report.metrics import Metrics as SchedulerMetrics
from webhook.metrics import Metrics as WebhookMetrics

ROOT = Path(__file__).parents[3]
UPGRADE = ROOT / "docs" / "upgrade.md"
#: Files that name what was renamed.
RECORDS = ("changes/api-names.changed.md", "docs/upgrade.md")
#: Files of the code that reads the objects of such a build.
READERS = (
    "scheduler/model/crd/former_version.py",
    "scheduler/bind/former_objects.py",
    "gpuctl/doctor/rights.py",
    "tests/unit/model/crd/test_former_version.py",
    "tests/http/bind/test_former_objects.py",
    "cluster/rbac.yaml",
    "cluster/rbac-migrations.yaml",
    "charts/gpu-scheduler/files/cluster/rbac.yaml",
    "charts/gpu-scheduler/files/cluster/rbac-migrations.yaml",
    "webhook/deploy/01-rbac.yaml",
    "docs/security.md",
    "tests/unit/docs/test_readme.py",
)
KINDS = {
    "crd-podmigrations.yaml": ("podmigrations", "PodMigration", "podmig"),
    "crd-migpartitions.yaml": ("migpartitions", "MigPartition", "migp"),
}


@pytest.mark.parametrize(("file", "names"), KINDS.items(), ids=KINDS)
def test_api_kinds_have_their_names(file: str, names: tuple[str, str, str]) -> None:
    crd = yaml.safe_load((ROOT / "cluster" / file).read_text(encoding="utf-8"))

    found = crd["spec"]["names"]
    assert crd["metadata"]["name"] == f"{names[0]}.gpu-scheduler.io"
    assert (found["plural"], found["kind"], *found["shortNames"]) == names
    assert found["listKind"] == f"{names[1]}List"
    assert found["singular"] == names[1].lower()


def metric_names(registry: CollectorRegistry) -> set[str]:
    return {family.name for family in registry.collect()}


def test_every_metric_has_the_prefix() -> None:
    """Except process_*, which the Prometheus client of every program has."""
    webhook = WebhookMetrics(lambda: 1.0)
    served = set(re.findall(r"^# TYPE (\S+)", webhook.render().decode(), re.M))
    names = metric_names(SchedulerMetrics("gpu-scheduler").registry) | served

    assert {name for name in names if not name.startswith(("gpu_scheduler_", "process_"))} == set()
    assert {"gpu_scheduler_reservations", "gpu_scheduler_mig_partitions"} <= names
    assert {"gpu_scheduler_event_writes", "gpu_scheduler_migrations"} <= names


def test_reason_codes_have_the_fields_terms() -> None:
    names = {"GPU_BACKOFF", "INSTANCES_DO_NOT_FIT_TOGETHER", "KUBELET_ASSIGNS_DEVICES"}

    assert names <= REASON_CODES.keys()


def test_scores_have_plain_names_in_json() -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(NodeScore)}

    assert {"softPenalty", "costDelta", "newInstances"} <= fields


def former_names() -> list[str]:
    """The first column of the tables of former names in docs/upgrade.md."""
    text = UPGRADE.read_text(encoding="utf-8").partition("## Former names")[2]
    cells = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_no_former_name_is_left() -> None:
    """Whole words, in every file that is tracked."""
    names = former_names()
    assert len(names) > 30
    pattern = "|".join(rf"(?<![\w.]){re.escape(name)}(_total)?(?!\w)" for name in names)
    excluded = [f":!{path}" for path in (*RECORDS, *READERS, "tests/unit/docs/test_api_names.py")]
    listed = subprocess.run(
        ["git", "grep", "-nIP", pattern, "--", ".", *excluded],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
    )

    assert listed.stdout == ""
    assert listed.returncode == 1, listed.stderr
