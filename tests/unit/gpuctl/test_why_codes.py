"""`gpuctl why` has a next step for every reason code, with the leader and without."""

from __future__ import annotations

import re

import msgspec
import pytest

from gpuctl.output.why import Why
from gpuctl.pods.pod_facts import facts_of
from scheduler.decide.explain import meanings
from scheduler.decide.remedy.outlook import CanStart
from scheduler.decide.remedy.search import TRIED
from scheduler.framework.reason_codes import INTERNAL
from scheduler.model.pods.pod import Condition, Pod
from scheduler.model.reasons.reason import ReasonCode
from scheduler.plugins import REASON_CODES
from scheduler.report.decisions.api_types import API_VERSION, PodAnswer
from tests.questions import explain_now, outlook
from tests.reason_worlds import DECIDED, GANGS, world_of
from tests.unit.gpuctl.test_why import shown

#: Codes of worlds in which an edit of the pod, of a node or of another pod is known to help. In
#: the other worlds an object has to change that only its owner knows.
REMEDIED = frozenset(TRIED) - {
    *("GPU_MEMORY_TOO_SMALL", "GPU_MEMORY_UNKNOWN"),  # the pod wrote an affinity of its own
    *("MAP_AND_VOLUME", "MAP_CLAIM_MISMATCH"),  # no request, or a claim, holds the pod
    *("MAP_INVALID", "MAP_NODE_AMBIGUOUS"),  # the map has no line, or no node has GPUs
    *("INDEX_HELD", "NO_DEVICE_FOR_ENV"),  # the terminating pod still holds; no map
}


def stored(pod: Pod, message: str) -> Pod:
    """The pod with the message in its condition."""
    since = "2026-11-27T11:00:00Z"
    condition = Condition(status="False", reason="Unschedulable", message=message, since=since)
    return msgspec.structs.replace(pod, condition=condition)


def has_step(text: str, code: ReasonCode) -> bool:
    """Whether the text has the code's next step, with names in the places for them."""
    return all(one in text for one in re.split(r"\bNODE\b|\bNAME\b", code.next_step))


@pytest.mark.parametrize("code", [*DECIDED, *GANGS], ids=lambda code: code.name)
def test_every_code_has_a_verdict_and_a_next_step(
    capsys: pytest.CaptureFixture[str], code: ReasonCode
) -> None:
    world = world_of(code)
    now = explain_now(world.cluster, world.pod, world.pipeline)
    expected = outlook(world.cluster, world.pod, world.pipeline, now)
    answer = PodAnswer(
        api_version=API_VERSION,
        namespace="team",
        pod=world.pod.name,
        leads=True,
        now=now,
        outlook=expected,
        codes=meanings(one.code for one in now.refusals),
    )
    facts = facts_of(world.pod)
    found = Why(namespace="team", pod=world.pod.name, waits=True, witness=facts, answer=answer)

    text = shown(capsys, found)

    assert expected.can_start is not CanStart.NOW
    assert expected.text
    steps = text.partition("do one")[2]
    is_remedied = any(code.name in remedy.codes for remedy in expected.remedies)
    assert ("-> starts now on" in steps) is bool(expected.remedies)
    assert is_remedied or has_step(steps, code)
    assert is_remedied is (code.name in REMEDIED)


@pytest.mark.parametrize("code", REASON_CODES.values(), ids=lambda code: code.name)
def test_every_code_has_a_next_step_without_the_leader(
    capsys: pytest.CaptureFixture[str], code: ReasonCode
) -> None:
    if code is INTERNAL:
        world_pod, message = world_of(DECIDED[0]).pod, "internal error 7f3a (see the log)"
    else:
        world = world_of(code)
        world_pod = world.pod
        message = explain_now(world.cluster, world.pod, world.pipeline).message
    facts = facts_of(stored(world_pod, message))
    found = Why(namespace="team", pod=facts.pod, waits=True, witness=facts)

    text = shown(capsys, found)

    assert " ago: " in text
    assert has_step(text.partition("do one")[2], code)


def test_placed_pod_needs_no_remedy() -> None:
    world = world_of(REASON_CODES["INSUFFICIENT"])
    fitting = msgspec.structs.replace(world.pod, requests={})

    now = explain_now(world.cluster, fitting, world.pipeline)

    expected = outlook(world.cluster, fitting, world.pipeline, now)
    assert (expected.can_start, expected.text) == (CanStart.NOW, "on node n1")
