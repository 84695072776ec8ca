"""Results of Kubernetes' own tests become a table, and pods are steered by one policy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.upstream_e2e.run import FOCUS, SKIP
from tools.upstream_e2e.steering import manifests
from tools.upstream_e2e.table import BEGIN, END, missed, put_into, read, rows, table

REPORT = """[{"SpecReports": [
  {"LeafNodeType": "BeforeSuite", "State": "passed"},
  {"ContainerHierarchyTexts": ["[sig-scheduling] LimitRange"], "LeafNodeType": "It",
   "LeafNodeText": "should apply", "State": "passed"},
  {"ContainerHierarchyTexts": ["[sig-storage] A"], "LeafNodeType": "It", "LeafNodeText": "b",
   "State": "skipped"}
]}]"""


def test_results_are_those_of_specs_that_ran(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_text(REPORT)
    assert read(report) == {"LimitRange should apply": "passed"}


ASYNC = "[Feature:SchedulerAsyncPreemption] [FeatureGate:SchedulerAsyncPreemption] [Beta]"


@pytest.mark.parametrize(
    ("tags", "is_skipped"),
    [
        pytest.param("[Serial]", False, id="no-gate"),
        pytest.param(ASYNC, False, id="a-gate-that-is-on-by-default"),
        pytest.param("[FeatureGate:A] [Alpha] [Feature:OffByDefault]", True, id="alpha"),
        pytest.param("[FeatureGate:B] [Beta] [Feature:OffByDefault]", True, id="beta-that-is-off"),
    ],
)
def test_specs_of_features_that_are_off_by_default_are_skipped(tags: str, is_skipped: bool) -> None:
    name = f"[sig-scheduling] SchedulerPreemption validates this {tags}"

    assert re.match(FOCUS, name)
    assert bool(re.search(SKIP, name)) == is_skipped


def test_run_without_a_report_has_no_results(tmp_path: Path) -> None:
    assert read(tmp_path / "report.json") == {}


def test_table_has_both_results_of_each_spec() -> None:
    text = table({"a | b": "passed", "c": "failed"}, {"a | b": "passed"})
    assert text.splitlines()[2:] == ["| a / b | passed | passed |", "| c | failed | not run |"]


def test_only_specs_that_kube_scheduler_passes_are_missed() -> None:
    theirs = {"a": "passed", "b": "passed", "c": "failed", "d": "passed"}
    assert missed(theirs, {"a": "passed", "b": "failed", "c": "failed"}) == ["b", "d"]


def test_table_replaces_what_is_between_the_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert put_into(page, "new") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"


def test_results_are_read_back_from_the_table() -> None:
    """A run of some specs leaves the results of the others."""
    theirs, ours = {"a / b": "passed", "c": "failed"}, {"a / b": "passed", "c": "not run"}
    page = put_into(f"before\n{BEGIN}\n{END}\n", table(theirs, ours))

    assert rows(page) == (theirs, ours)


def test_page_without_marks_is_refused() -> None:
    with pytest.raises(AssertionError, match="no marks"):
        put_into("before\n", "new")


def test_policy_steers_pods_of_the_default_scheduler_only() -> None:
    policy, *bindings = manifests("gpu-scheduler")
    assert policy["spec"]["matchConditions"] == [
        {"name": "default", "expression": "object.spec.schedulerName == 'default-scheduler'"}
    ]
    assert {one["spec"]["policyName"] for one in bindings} == {policy["metadata"]["name"]}
