"""Mapped pods that the webhook did not mutate are not bound, and their reason has the command."""

from __future__ import annotations

import pytest

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.reasons.reason import sentence
from scheduler.plugins import REASON_CODES, default_pipeline
from tests.builders import (
    PodFields,
    cluster,
    codes,
    container,
    downward,
    namespace,
    node,
    pod,
    refused,
)

EXPECTS = default_pipeline(
    Settings(maps_allow="all", expects_webhook=True, own_namespace="gpu-system")
)
TOLD = [{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]
NUMBERED = node(gpus=4, with_gpu_indexes=True)
COUNTED = node(gpus=4)
MAP: PodFields = {"map": "0=n1:0"}


@pytest.mark.parametrize(
    "pipeline",
    [
        pytest.param(default_pipeline(Settings(maps_allow="all")), id="seed-002s-option-a"),
        pytest.param(EXPECTS, id="webhook"),
    ],
)
def test_unmutated_pod_binds_only_where_no_webhook_is_expected(
    pipeline: Pipeline,
) -> None:
    decision = schedule_one(cluster(NUMBERED), pod("w-0", **MAP), pipeline)

    if pipeline.expects_webhook:
        assert not isinstance(decision, Placement)
    else:
        assert isinstance(decision, Placement)
        assert [reason for reason, _ in decision.notes] == ["EnvironmentNotSet"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({**MAP, "containers": [container(env=TOLD)]}, id="a-literal"),
        pytest.param({**MAP, "containers": [container(env=[downward()])]}, id="an-annotation"),
        pytest.param({**MAP, "annotations": {well_known.CUDA_MODE: "none"}}, id="mode-none"),
        pytest.param({"gpus": 1}, id="no-map"),
        pytest.param({**MAP, "namespace": "kube-system"}, id="the-systems-namespace"),
        pytest.param({**MAP, "namespace": "gpu-system"}, id="our-own-namespace"),
        pytest.param({**MAP, "namespace": "out"}, id="a-namespace-that-opted-out"),
    ],
)
def test_pods_bound_without_mutation(fields: PodFields) -> None:
    """Mutated already, nothing to mutate, or outside of the webhook's scope."""
    world = cluster(NUMBERED, namespace("out", labels={well_known.WEBHOOK_OPT_OUT: "disabled"}))

    assert isinstance(schedule_one(world, pod("w-0", **fields), EXPECTS), Placement)


def test_kubelet_assigned_node_needs_no_mutation() -> None:
    """The webhook sets no variable there, so that none is missing."""
    fields: PodFields = {"map": "0=n1:0", "gpus": 1}

    assert isinstance(schedule_one(cluster(COUNTED), pod("w-0", **fields), EXPECTS), Placement)


def test_other_refusals_precede_missing_mutation() -> None:
    """A pod that could not be placed anyway is not recreated."""
    assert codes(
        cluster(node(gpus=4, with_gpu_indexes=True, cordoned=True)), pod("w-0", **MAP), EXPECTS
    ) == {REASON_CODES["NODE_UNSCHEDULABLE"]}


OWNERS = [
    pytest.param("StatefulSet/w", "at most 3 tries per owner", id="statefulset"),
    pytest.param("Deployment/w@r1", "it is recreated once the webhook", id="deployment"),
    pytest.param(
        "Job/w", "recreate it: kubectl -n team delete pod w-0.", id="a-job-makes-it-again"
    ),
    pytest.param(
        "",
        "recreate it: kubectl -n team get pod w-0 -o yaml | kubectl replace --force -f -.",
        id="no-controller",
    ),
]


@pytest.mark.parametrize(("owner", "text"), OWNERS)
def test_reason_names_the_next_step(owner: str, text: str) -> None:
    labels = {"batch.kubernetes.io/job-completion-index": "0"}
    asked = pod("w-0", owner=owner, labels=labels, map="0=n1:0")

    told = sentence(refused(cluster(NUMBERED), asked, EXPECTS).diagnosis)

    assert told.startswith(
        "0/1 nodes are available: NotMutated: CUDA_VISIBLE_DEVICES is not set because the pod was"
        " created without the webhook; "
    )
    assert text in told
