"""The node that a pod waits for stands on it as nominated, and no longer than it waits."""

from __future__ import annotations

from tests.builders import pod
from tests.http.recording import EVENT, PATCH, SENTENCE, A, Recording, condition


async def test_nominated_node_is_set_until_the_wait_is_over(
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


async def test_nomination_of_another_replica_is_cleared(recording: Recording) -> None:
    left = {**condition("waits"), "reason": "WaitingForCapacity"}
    recording.recorder.failed(
        pod("a", gpus=1, nominated="n1", status={"conditions": [left]}), SENTENCE
    )
    await recording.sent()

    [body] = recording.bodies(PATCH)
    assert body["status"]["nominatedNodeName"] is None


async def test_foreign_nomination_is_kept(recording: Recording) -> None:
    theirs = pod("a", gpus=1, nominated="n1", status={"conditions": [condition("old")]})
    recording.recorder.failed(theirs, SENTENCE)
    await recording.sent()

    [body] = recording.bodies(PATCH)
    assert "nominatedNodeName" not in body["status"]


async def test_binding_failure_after_the_wait_clears_the_nomination(
    recording: Recording,
) -> None:
    """The watch may not show the nomination yet."""
    recording.recorder.waits(A, "waits", "n1")
    await recording.sent()
    recording.recorder.forget(A.uid)
    recording.recorder.failed(A, "binding failed: x", "SchedulerError")
    await recording.sent()

    assert recording.bodies(PATCH)[-1]["status"]["nominatedNodeName"] is None
