"""A pod's position among the pods that wait."""

from __future__ import annotations

import pytest

from scheduler.state.parts import finish
from scheduler.state.queue.position import BEFORE_MAX, position
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from tests.builders import pod


@pytest.fixture
def queue() -> SchedulingQueue:
    """Five pods: the important one came last."""
    made = SchedulingQueue()
    for at in range(4):
        made.add(pod(f"p{at}", created=at), 0.0)
    made.add(pod("important", created=9, priority=5), 0.0)
    return made


@pytest.mark.parametrize(
    ("name", "expected", "before"),
    [
        pytest.param("important", 1, [], id="highest-priority"),
        pytest.param("p0", 2, ["important"], id="oldest"),
        pytest.param("p3", 5, ["p2", "p1", "p0"], id="only-the-nearest-are-named"),
    ],
)
def test_position_is_by_priority_then_age(
    queue: SchedulingQueue, name: str, expected: int, before: list[str]
) -> None:
    [entry] = [one for one in queue.entries() if one.pod.name == name]

    found = finish(position(entry, queue.entries()))

    assert (found.position, found.of) == (expected, 5)
    assert [one.name for one in found.before] == before
    assert len(found.before) <= BEFORE_MAX
