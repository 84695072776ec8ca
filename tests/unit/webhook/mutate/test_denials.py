"""What is refused at admission, and with which sentence."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, NodeAssignment
from tests.unit.webhook.pods import (
    CONFIG,
    answer,
    container,
    gpus,
    pod,
    run,
)
from webhook.mutate.pod_mutation import Denial, PodMutation, Request

MAP = "0=gpu-a:0,1"


@pytest.mark.contract("S2-B11")
@pytest.mark.parametrize(
    ("map_text", "message"),
    [
        pytest.param(
            "0=gpu-a:0\n1=gpu-b",
            'gpu-scheduling-map line 2: no devices after node "gpu-b"',
            id="line-number",
        ),
        pytest.param("0=a:0 1=b:0", "gpu-scheduling-map line 1: more than one", id="folded"),
        pytest.param("", "gpu-scheduling-map line 1: the map is empty", id="empty"),
    ],
)
def test_a_bad_map_is_denied_with_its_line(map_text: str, message: str) -> None:
    """Code 400, no patch, and no query to the scheduler."""
    body = pod(map_text=map_text)

    outcome = run(body)

    assert outcome.denial is not None
    assert (outcome.denial.code, outcome.patch) == (400, ())
    assert outcome.denial.message.startswith(message)
    assert outcome.log[-1] == f"Denied pod default/w-0: {outcome.denial.message}"
    assert not PodMutation(body, Request(namespace="default"), CONFIG).needs_answer


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            pod(container(limits=gpus(3)), map_text=MAP),
            "gpu-scheduling-map index 0: the line names 2 device(s), "
            "the pod's containers request 3 nvidia.com/gpu",
            id="requests-and-line-differ",
        ),
        pytest.param(
            pod(
                container(limits=gpus(1)),
                name="",
                owner="ReplicaSet",
                map_text="0=gpu-a:0\n1=gpu-a:1,2",
            ),
            "gpu-scheduling-map index 1: the line names 2 device(s), "
            "the pod's containers request 1 nvidia.com/gpu",
            id="one-line-can-never-fit-a-replica",
        ),
        pytest.param(
            pod(map_text=MAP, annotations={well_known.CUDA_MODE: "uuid"}),
            "gpu-scheduler.io/cuda-mode: uuid is not implemented yet, use auto, index or local",
            id="uuid",
        ),
        pytest.param(
            pod(annotations={well_known.CUDA_MODE: "Auto\n"}),
            r'gpu-scheduler.io/cuda-mode: "Auto\n" is not a mode, '
            "use one of auto, index, local, none",
            id="unknown-mode",
        ),
        pytest.param(
            pod(annotations={"note": "\u00e9" * 130_000}),
            "the pod's annotations take 260004 bytes, the API server allows 262144 and 4096 of "
            "them are needed for the scheduler's own",
            id="annotations-too-large",
        ),
    ],
)
def test_impossible_pod_is_denied_in_one_line(body: Any, message: str) -> None:
    """And before the scheduler reserves anything for it."""
    assert run(body, answer()).denial == Denial(400, message)
    assert not PodMutation(body, Request(namespace="default"), CONFIG).needs_answer


def test_annotations_that_leave_room_are_accepted() -> None:
    """The limit is the API server's less 4 KiB, to the byte."""
    free = 262_144 - 4096

    assert run(pod(annotations={"k": "x" * (free - 1)})).denial is None
    assert run(pod(annotations={"k": "x" * free})).denial is not None


def test_known_index_is_checked_against_its_line_only() -> None:
    """Only its own line will ever be used."""
    body = pod(container(limits=gpus(1)), map_text="0=gpu-a:0\n1=gpu-a:1,2")

    assert run(body).denial is None


@pytest.mark.parametrize("mode", ["auto", "none", "local", "index"])
def test_requests_are_compared_in_every_mode(mode: str) -> None:
    """The mode decides about the variable; the scheduler honours the map all the same."""
    body = pod(container(limits=gpus(1)), map_text=MAP, annotations={well_known.CUDA_MODE: mode})

    assert run(body).denial is not None


@pytest.mark.parametrize(
    ("node_name", "said", "denied"),
    [
        pytest.param("gpu-a", answer(), False, id="the-lines-node"),
        pytest.param("gpu-b", answer(), True, id="another-node"),
        pytest.param(
            "real",
            AdmissionDecision(node_kinds={"gpu-a": NodeAssignment("real", "counted")}),
            False,
            id="alias",
        ),
        pytest.param(
            "gpu-b",
            AdmissionDecision(node_kinds={"gpu-a": NodeAssignment("real", "counted")}),
            True,
            id="not-alias",
        ),
        pytest.param("gpu-b", None, False, id="unknown-index"),
    ],
)
def test_a_pod_on_another_node_than_its_line_says_is_denied(
    node_name: str, said: AdmissionDecision | None, denied: bool
) -> None:
    """Its devices would be those of the wrong node."""
    outcome = run(pod(map_text=MAP, nodeName=node_name), said)

    assert (outcome.denial is not None) is denied
    if outcome.denial:
        assert outcome.denial.message == (
            'gpu-scheduling-map index 0: the line names node "gpu-a", spec.nodeName is "gpu-b"'
        )


def test_scheduler_denial_is_returned_with_code_403() -> None:
    """For a ladder that ends in fail, and for a namespace that may not map."""
    body = pod(map_text=MAP)

    outcome = run(body, answer(denied="namespace default may not use maps", reservation="r-1"))

    assert outcome.denial == Denial(403, "namespace default may not use maps")
    assert outcome.patch == ()


def test_a_long_map_is_denied_with_its_last_line() -> None:
    """200 KiB, good up to there."""
    text = "".join(f"{i}=gpu-{i:05d}.example:0,{i % 8 + 1}\n" for i in range(7600)) + "bad"

    denial = run(pod(map_text=text)).denial

    assert denial is not None
    assert "line 7601" in denial.message


@pytest.mark.parametrize("count", ["1025", "2000000000", str(2**63 - 1), "9" * 5_000])
def test_a_pod_that_requests_more_gpus_than_are_read_is_denied(count: str) -> None:
    """In mode local an entry of the variable would have a number for each of them."""
    asks = container(resources={"limits": {well_known.GPU: count}})
    body = pod(asks, name="bomb-7", map_text=MAP, annotations={well_known.CUDA_MODE: "local"})

    denial = run(body).denial
    assert denial is not None
    assert "nvidia.com/gpu, at most 1024 are read" in denial.message


def test_pod_whose_env_would_not_be_stored_is_denied() -> None:
    line = "0=gpu-a:" + ",".join(str(10**8 + number) for number in range(256))
    body = pod(*(container(f"c{number}") for number in range(500)), name="w-0", map_text=line)

    denial = run(body).denial
    assert denial is not None
    assert "CUDA_VISIBLE_DEVICES of 500 containers would take" in denial.message


@pytest.mark.parametrize("record", ["[" * 10_000, "9" * 5_000, "{" + " " * 70_000 + "}"])
def test_unreadable_record_is_ignored(record: str) -> None:
    said = {well_known.ORIGINAL: record, well_known.FALLBACK: "2g.20gb->1g.10gb"}
    body = pod(container(resources={"limits": {"nvidia.com/mig-2g.20gb": "1"}}), annotations=said)

    assert run(body, None).denial is None
