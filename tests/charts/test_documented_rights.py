"""The rights in docs/security.md equal those of the default release."""

from __future__ import annotations

import pytest
import yaml

from tests.charts.rendering import SCHEDULER, objects
from tools.charts.copies import ROOT

PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
ROLES = ("ClusterRole", "Role")


@pytest.mark.parametrize(
    ("source", "group", "kind"),
    [
        ("volcano", "scheduling.volcano.sh", "podgroups"),
        ("kai", "scheduling.run.ai", "podgroups"),
        ("grove", "scheduler.grove.io", "podgangs"),
    ],
)
def test_right_to_read_groups_is_that_of_the_named_source(
    source: str, group: str, kind: str
) -> None:
    found = objects(SCHEDULER, "--set", f"config.gang.sources={{{source}}}")
    [role] = [
        each
        for each in found
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "gpu-scheduler-groups"
    ]

    assert role["rules"] == [
        {"apiGroups": [group], "resources": [kind], "verbs": ["list", "watch"]}
    ]


def test_default_release_creates_exactly_the_documented_cluster_roles() -> None:
    """Their content is compared with cluster/ in test_one_truth.py; here is the rest."""
    names = ("rbac.yaml", "rbac-migrations.yaml", "rbac-preemption.yaml")
    files = [ROOT / "cluster" / name for name in names]
    known = {
        (each["kind"], each["metadata"]["name"])
        for file in files
        for each in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        if each["kind"] in ROLES
    }
    more = [
        each
        for each in objects()
        if each["kind"] in ROLES and (each["kind"], each["metadata"]["name"]) not in known
    ]

    assert {each["metadata"]["name"] for each in more} == {"gpu-scheduler-certificates"}
    assert "`gpu-scheduler-certificates`: `get` and `patch`" in PAGE
    for each in more:
        for rule in each["rules"]:
            assert rule["verbs"] in (["get", "patch"], ["get"])
            assert len(rule["resourceNames"]) == 1
