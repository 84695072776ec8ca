"""The node that a pod waits for stands on it as nominated, and no longer than it waits."""

from __future__ import annotations

from tests.builders import pod
from tests.http.recording import EVENT, PATCH, SENTENCE, A, Recording, condition


async def test_a_nominated_node_stands_beside_its_reason_until_the_wait_is_over(
    recording: Recording,
) -> None:
    recorder = recording.recorder
    recorder.waits(A, "waits", "n1")
    recorder.waits(A, "waits", "n1")
    await recording.sent()
    recorder.failed(A, SENTENCE)
    recorder.failed(A, SENTENCE)
    await recording.sent()

    written = [body["status"] for body in recording.bodies(PATCH)]
    assert [(one["conditions"][0]["reason"], one["nominatedNodeName"]) for one in written] == [
        ("WaitingForCapacity", "n1"),
        ("Unschedulable", None),
    ]
    assert len(recording.bodies(EVENT)) == 1  # the request to cut has an event of its own


async def test_a_nomination_that_another_of_us_wrote_is_taken_back(recording: Recording) -> None:
    left = {**condition("waits"), "reason": "WaitingForCapacity"}
    recording.recorder.failed(
        pod("a", gpus=1, nominated="n1", status={"conditions": [left]}), SENTENCE
    )
    await recording.sent()

    [body] = recording.bodies(PATCH)
    assert body["status"]["nominatedNodeName"] is None


async def test_a_nomination_that_is_not_ours_is_left_as_it_is(recording: Recording) -> None:
    theirs = pod("a", gpus=1, nominated="n1", status={"conditions": [condition("old")]})
    recording.recorder.failed(theirs, SENTENCE)
    await recording.sent()

    [body] = recording.bodies(PATCH)
    assert "nominatedNodeName" not in body["status"]


async def test_a_binding_that_fails_after_the_wait_takes_the_nomination_back(
    recording: Recording,
) -> None:
    """The watch may not show the nomination yet."""
    recording.recorder.waits(A, "waits", "n1")
    await recording.sent()
    recording.recorder.forget(A.uid)
    recording.recorder.failed(A, "binding failed: x", "SchedulerError")
    await recording.sent()

    assert recording.bodies(PATCH)[-1]["status"]["nominatedNodeName"] is None
