"""Where the index of a pod in a map comes from."""

from __future__ import annotations

import pytest

from scheduler.model import names
from scheduler.model.limits import MAP_INDEX_MAX
from scheduler.model.podindex import IndexRule, index_of
from scheduler.model.podparts import Owner

JOB = {names.JOB_INDEX: "2"}
SET_LABEL = {names.STATEFULSET_INDEX: "4"}


@pytest.mark.contract("S2-4", "S2-5", "S2-B9")
@pytest.mark.parametrize(
    ("kind", "name", "labels", "index"),
    [
        pytest.param("StatefulSet", "w-3", {}, 3, id="set"),
        pytest.param("StatefulSet", "w-5", {}, 5, id="set-with-start-ordinal"),
        pytest.param("StatefulSet", "w-3", SET_LABEL, 4, id="label-wins-over-name"),
        pytest.param("StatefulSet", "w-3", {names.STATEFULSET_INDEX: "x"}, 3, id="odd-label"),
        pytest.param("StatefulSet", "w", {}, IndexRule.UNKNOWN, id="set-without-ordinal"),
        pytest.param(None, "w-01", {}, IndexRule.UNKNOWN, id="bare-leading-zero"),
        pytest.param(None, "w-1", {}, 1, id="bare"),
        pytest.param(None, "w-0", {}, 0, id="bare-zero"),
        pytest.param(None, "pod--1", {}, 1, id="two-dashes"),
        pytest.param(None, "1", {}, IndexRule.UNKNOWN, id="bare-all-digits"),
        pytest.param(None, "w-\u0663", {}, IndexRule.UNKNOWN, id="bare-arabic-digit"),
        pytest.param(None, "llama-6bd69b846c-mvtrx", {}, IndexRule.UNKNOWN, id="bare-letters"),
        pytest.param(None, "w-99999999999999999999", {}, IndexRule.UNKNOWN, id="bare-overflow"),
        pytest.param(None, f"w-{MAP_INDEX_MAX}", {}, MAP_INDEX_MAX, id="bare-largest"),
        pytest.param(None, f"w-{MAP_INDEX_MAX + 1}", {}, IndexRule.UNKNOWN, id="bare-too-large"),
        pytest.param(None, "w-1", SET_LABEL, 1, id="bare-ignores-a-forged-set-label"),
        pytest.param(None, "w-1", JOB, 1, id="bare-ignores-a-forged-job-label"),
        pytest.param("ReplicaSet", "llama-70-6bd69b846c-22222", {}, IndexRule.ASSIGNED, id="hash"),
        pytest.param("ReplicaSet", "w-3", JOB, IndexRule.ASSIGNED, id="set-of-replicas"),
        pytest.param("Job", "train-2-x9f4k", JOB, 2, id="indexed-job"),
        pytest.param("Job", "", JOB, 2, id="indexed-job-before-it-has-a-name"),
        pytest.param("Job", "train-x9f4k", {}, IndexRule.ASSIGNED, id="job-without-index"),
        pytest.param("Job", "train-22222", {}, IndexRule.ASSIGNED, id="job-digits"),
        pytest.param("Job", "t", {names.JOB_INDEX: "02"}, IndexRule.UNKNOWN, id="odd-job-label"),
        pytest.param("DaemonSet", "w-3", {}, IndexRule.ASSIGNED, id="daemon-set"),
        pytest.param(None, "my-app-0", {}, 0, id="seed-0"),
        pytest.param(None, "gpu-workload-1", {}, 1, id="seed-1"),
        pytest.param(None, "test-pod-42", {}, 42, id="seed-42"),
        pytest.param(None, "service-deployment-123", {}, 123, id="seed-123"),
        pytest.param(None, "my-app-abc", {}, IndexRule.UNKNOWN, id="seed-abc"),
        pytest.param(None, "no-index", {}, IndexRule.UNKNOWN, id="seed-no-index"),
        pytest.param(None, "test-pod-", {}, IndexRule.UNKNOWN, id="seed-dash-at-the-end"),
        pytest.param(None, "", {}, IndexRule.UNKNOWN, id="seed-no-name"),
    ],
)
def test_where_the_index_comes_from(
    kind: str | None, name: str, labels: dict[str, str], index: int | IndexRule
) -> None:
    """The controller's label first, then a canonical name suffix, else the scheduler assigns."""
    owner = None if kind is None else Owner(kind, "x", "u")

    assert index_of(name=name, owner=owner, labels=labels, annotations={}) == index
