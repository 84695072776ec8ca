"""Workloads become the pods that their real controllers would make."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpuctl.input_error import InputError
from gpuctl.simulate.manifests import Document
from gpuctl.simulate.workload_expansion import PlannedPod, expand
from tests.unit.gpuctl.cli import Json, spec, workload

RANDOM = "[bcdfghjklmnpqrstvwxz2456789]"


def expanded(
    kind: str, name: str = "web", wanted: Json | None = None, **of: Any
) -> list[PlannedPod]:
    raw = workload(kind, name, wanted or spec(), **of)
    return expand(Document(place="f: document 1", raw=raw), "team")


def test_a_stateful_set_numbers_its_pods_from_its_start() -> None:
    first, second = expanded("StatefulSet", replicas=2, ordinals={"start": 3})

    assert [first.name, second.name] == ["web-3", "web-4"]
    labels = second.raw["metadata"]["labels"]
    assert labels["apps.kubernetes.io/pod-index"] == "4"
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-4"
    assert re.fullmatch(rf"web-{RANDOM}+", labels["controller-revision-hash"])
    assert (first.after, second.after) == (None, "web-3")


def test_deployment_pods_are_named_and_owned_through_a_replica_set() -> None:
    pods = expanded("Deployment", replicas=3)

    assert all(re.fullmatch(rf"web-{RANDOM}{{1,10}}-{RANDOM}{{5}}", pod.name) for pod in pods)
    assert len({pod.name for pod in pods}) == 3
    meta = pods[0].raw["metadata"]
    assert meta["generateName"] == f"web-{meta['labels']['pod-template-hash']}-"
    owner = meta["ownerReferences"][0]
    assert (owner["kind"], owner["controller"]) == ("ReplicaSet", True)
    assert owner["name"] == meta["generateName"].removesuffix("-")


def test_another_template_has_another_hash() -> None:
    (one,), (other,) = expanded("Deployment"), expanded("Deployment", wanted=spec("cpu", 1))

    assert one.raw["metadata"]["labels"] != other.raw["metadata"]["labels"]


def test_a_thousand_replicas_have_a_thousand_names() -> None:
    assert len({pod.name for pod in expanded("ReplicaSet", replicas=1000)}) == 1000


def test_a_long_name_is_cut_like_the_api_server_cuts_it() -> None:
    (pod,) = expanded("Deployment", name="w" * 60)

    assert len(pod.name) == 63


def test_an_indexed_job_labels_each_pod_with_its_index() -> None:
    pods = expanded("Job", completions=3, parallelism=2, completionMode="Indexed")

    assert [re.sub(rf"{RANDOM}{{5}}$", "", pod.name) for pod in pods] == ["web-0-", "web-1-"]
    assert [
        pod.raw["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in pods
    ] == ["0", "1"]


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        pytest.param({}, 1, id="one-by-default"),
        pytest.param({"parallelism": 3}, 3, id="a-work-queue"),
        pytest.param({"completions": 2, "parallelism": 5}, 2, id="no-more-than-completions"),
        pytest.param({"completions": 5}, 1, id="one-at-a-time"),
        pytest.param({"parallelism": 0}, 0, id="none"),
        pytest.param({"suspend": True, "parallelism": 3}, 0, id="suspended"),
    ],
)
def test_how_many_pods_a_job_has_at_first(fields: Json, count: int) -> None:
    assert len(expanded("Job", **fields)) == count


def test_volume_claim_templates_become_volumes_of_each_pod() -> None:
    (pod,) = expanded("StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}}])

    assert pod.raw["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    ]


@pytest.mark.parametrize("kind", ["StatefulSet", "Deployment", "ReplicaSet", "Job"])
def test_the_template_reaches_every_pod(kind: str) -> None:
    raw = workload(kind, "web", spec(), {"gpu-scheduling-map": "0=n:0"})
    raw["spec"]["template"]["metadata"]["labels"] = {"app": "web"}

    (pod,) = expand(Document(place="f: document 1", raw=raw), "team")

    meta = pod.raw["metadata"]
    assert (meta["namespace"], meta["labels"]["app"]) == ("team", "web")
    assert meta["annotations"] == {"gpu-scheduling-map": "0=n:0"}


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        pytest.param({"replicas": -1}, "spec.replicas: -1 is not a number of pods", id="negative"),
        pytest.param({"replicas": "2"}, "spec.replicas: '2' is not a number of pods", id="a-text"),
        pytest.param({"template": None}, "spec.template: is missing", id="no-template"),
    ],
)
def test_a_workload_that_cannot_be_expanded_says_where(raw: Json, line: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"f: document 1 (Deployment web): {line}")):
        expanded("Deployment", **raw)
