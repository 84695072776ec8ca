"""Pods whose map names DRA devices: the added request, and the environment of their containers."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, NodeAssignment
from tests.unit.webhook.pods import (
    container,
    environment,
    gpus,
    patched,
    pod,
    resources,
    run,
)

MAP = "0=gpu-a:3,1"


def on_dra(map_request: int = 0, **fields: Any) -> AdmissionDecision:
    """The answer about a node whose GPUs are DRA devices."""
    kinds = {"gpu-a": NodeAssignment("gpu-a", "counted", dra=True)}
    return AdmissionDecision(node_kinds=kinds, map_request=map_request, **fields)


def env(value: str) -> list[dict[str, str]]:
    """An entry that the author wrote."""
    return [{"name": "CUDA_VISIBLE_DEVICES", "value": value}]


def test_the_first_container_requests_the_gpus_of_the_line() -> None:
    body = pod(container("app"), container("log"), init=[container("prep")], map_text=MAP)
    outcome = run(body, on_dra(2))
    result = patched(body, on_dra(2))

    assert resources(result) == {"limits": gpus(2), "requests": gpus(2)}
    assert resources(result, 1) == {}
    assert result["metadata"]["annotations"][well_known.MAP_REQUEST] == "app=2"
    assert outcome.audit == {"map-request": "app=2"}
    assert (
        "Requested nvidia.com/gpu: 2 in container app of pod default/w-0: its map names DRA devices"
        in outcome.log
    )
    assert environment(result) == {"prep": None, "app": None, "log": None}


def test_other_resources_of_the_container_stay() -> None:
    body = pod(container("app", {"memory": "1Gi"}, {"cpu": "2"}), map_text=MAP)

    assert resources(patched(body, on_dra(2))) == {
        "limits": {"memory": "1Gi", **gpus(2)},
        "requests": {"cpu": "2", **gpus(2)},
    }


def test_a_second_call_adds_nothing() -> None:
    once = patched(pod(map_text=MAP), on_dra(2))

    assert patched(once, on_dra()) == once
    assert patched(once, None) == once


@pytest.mark.parametrize("said", [on_dra(), None], ids=["no-request-is-added", "no-answer"])
def test_without_the_answer_no_request_is_added(said: AdmissionDecision | None) -> None:
    assert resources(patched(pod(map_text=MAP), said)) == {}


ENVIRONMENT: list[Any] = [
    pytest.param(container("app", gpus(2)), 0, {}, None, id="nothing-is-injected"),
    pytest.param(container("app", gpus(2), env=env("3,1")), 0, {}, "0,1", id="an-entry-is-set"),
    pytest.param(container("app", env=env("3,1")), 2, {}, "0,1", id="with-the-added-request"),
    pytest.param(
        container("app", gpus(2), env=env("3,1")),
        0,
        {well_known.CUDA_MODE: "none"},
        "3,1",
        id="mode-none",
    ),
    pytest.param(
        container("app", gpus(2)), 0, {well_known.CUDA_MODE: "local"}, "0,1", id="mode-local"
    ),
    pytest.param(
        container("app", gpus(2)), 0, {well_known.CUDA_MODE: "index"}, "3,1", id="mode-index"
    ),
]


@pytest.mark.parametrize(("one", "added", "annotations", "value"), ENVIRONMENT)
def test_a_container_counts_its_own_devices_from_zero(
    one: dict[str, Any], added: int, annotations: dict[str, str], value: str | None
) -> None:
    body = pod(one, map_text=MAP, annotations=annotations)

    assert environment(patched(body, on_dra(added))) == {"app": value}


def test_each_requesting_container_counts_from_zero() -> None:
    body = pod(
        container("serve", gpus(1), env=env("3")),
        container("log", env=env("7")),
        container("train", gpus(1), env=env("1")),
        map_text=MAP,
    )

    assert environment(patched(body, on_dra())) == {"serve": "0", "log": "7", "train": "0"}


def test_a_pod_that_gets_no_request_is_warned_and_sees_no_indexes() -> None:
    """For example an interchangeable pod whose lines have different numbers of GPUs."""
    body = pod(name="", owner="ReplicaSet", map_text="0=gpu-a:0\n1=gpu-a:1,2")
    outcome = run(body, on_dra())

    assert environment(patched(body, on_dra())) == {"app": None}
    assert list(outcome.warnings) == [
        "CUDA_VISIBLE_DEVICES is not set: gpu-scheduling-map names DRA devices, which a container"
        " gets by a request or a claim only"
    ]


def test_a_pod_with_claims_is_left_as_it_is() -> None:
    one = container("app", env=env("5"))
    one["resources"] = {"claims": [{"name": "gpu"}]}
    claims = [{"name": "gpu", "resourceClaimName": "mine"}]
    body = pod(one, map_text=MAP, resourceClaims=claims)
    outcome = run(body, on_dra())

    assert patched(body, on_dra()) == body
    assert not outcome.warnings


def test_lines_on_other_nodes_too_keep_the_rule_of_unknown_nodes() -> None:
    body = pod(name="", owner="ReplicaSet", map_text="0=gpu-a:0\n1=gpu-b:1")

    assert environment(patched(body, on_dra())) == {"app": "@cuda-visible-devices"}
