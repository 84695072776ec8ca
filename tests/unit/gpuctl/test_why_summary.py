"""The short answer of `gpuctl why`: the present, the closest node, the queue, what to do."""

from __future__ import annotations

import pytest
from rich.console import Console, Group

from gpuctl.output import why as why_output
from scheduler.decide.explain import Outcome
from scheduler.decide.remedy.edit import request
from scheduler.decide.remedy.outlook import CanStart, Closest, Holder, Outlook
from scheduler.decide.remedy.search import Remedy
from scheduler.report.decisions.api_types import Ahead, Waiting
from tests.unit.gpuctl.test_why import NOW, SENTENCE, answered, shown, told_by, waiting_pod

OUTLOOK = Outlook(
    can_start=CanStart.LATER,
    text="when pods on 43 nodes end",
    closest=Closest(
        node="h100-12",
        text="4 of 8 nvidia.com/gpu free",
        holders=(
            Holder(
                namespace="team", pod="vllm", holds="4 nvidia.com/gpu", since="2026-11-21T10:00:00Z"
            ),
        ),
        others=2,
    ),
    remedies=(
        Remedy(
            codes=("INSUFFICIENT",), edits=(request("nvidia.com/gpu", 4, had=8),), node="h100-12"
        ),
    ),
)
QUEUED = Waiting(
    place="unschedulable",
    attempts=3,
    waits_s=60.0,
    position=2,
    of=7,
    before=(Ahead(namespace="lab", pod="exp-9", asks={"nvidia.com/gpu": 8}),),
)


def test_the_present_answer_is_first_and_replaces_the_stored_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = "0/49 nodes are available: 49 Insufficient nvidia.com/gpu (need 9; best node has 1 free)."
    answer = answered(Outcome(message=now, total=49), outlook=OUTLOOK, waiting=QUEUED)

    text = shown(capsys, told_by(waiting_pod(asks={"nvidia.com/gpu": "9"}), answer))

    lines = text.splitlines()
    assert lines[1] == "CAN start later: when pods on 43 nodes end"
    assert "asks     9 x nvidia.com/gpu" in lines
    assert "closest  h100-12: 4 of 8 nvidia.com/gpu free" in lines
    assert "         held by team/vllm (4 nvidia.com/gpu, " in text
    assert "         and 2 more pods" in lines
    assert "nodes    49 Insufficient nvidia.com/gpu (need 9; best node has 1 free)" in lines
    assert (
        "queue    2nd of 7 by priority and age; before it: lab/exp-9 (8 x nvidia.com/gpu)" in lines
    )
    assert "do one   request 4 nvidia.com/gpu instead of 8 -> starts now on h100-12" in lines
    assert "ask less" not in text
    assert "by the leader" in text
    assert SENTENCE not in text


@pytest.mark.parametrize(
    ("can_start", "text", "expected"),
    [
        pytest.param(CanStart.NOW, "on node n1", "CAN start now: on node n1", id="now"),
        pytest.param(
            CanStart.AFTER_CHANGE,
            "the pod has to change",
            "cannot start as it is: the pod has to change",
            id="after-a-change",
        ),
        pytest.param(
            CanStart.NEVER,
            "requests 16 nvidia.com/gpu and the largest node here has 8",
            "can NEVER start here, even on empty nodes: it requests 16 nvidia.com/gpu and the"
            " largest node here has 8",
            id="never",
        ),
    ],
)
def test_verdict_is_one_sentence(
    capsys: pytest.CaptureFixture[str], can_start: CanStart, text: str, expected: str
) -> None:
    answer = answered(Outcome(message=SENTENCE), outlook=Outlook(can_start=can_start, text=text))

    assert shown(capsys, told_by(waiting_pod(), answer)).splitlines()[1] == expected


def test_summary_fits_sixty_columns() -> None:
    answer = answered(Outcome(message=SENTENCE, total=2), outlook=OUTLOOK, waiting=QUEUED)
    console = Console(width=60, highlight=False)

    with console.capture() as captured:
        console.print(Group(*why_output.rendered(told_by(waiting_pod(), answer), NOW, wide=False)))

    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert max(map(len, lines)) <= 60
    assert "closest  h100-12: 4 of 8 nvidia.com/gpu free" in lines
    assert any("team/vllm" in line for line in lines)
