"""What a person sees of something that takes long."""

from __future__ import annotations

import io

import pytest

from tools.controlplane.programs.progress import Progress, Step, duration


class Terminal(io.StringIO):
    """A stream that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def let_pass(step: Step, clock: Clock, seconds: int) -> None:
    """Tick ten times per second, like a running build."""
    for _ in range(seconds * 10):
        clock.seconds += 0.1
        step.tick()


def test_log_gets_a_line_at_start_and_end_and_every_20_seconds() -> None:
    """Without a terminal a minute is five lines, not hundreds."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, clock).step("building", 90) as step:
        let_pass(step, clock, 65)

    assert stream.getvalue().splitlines() == [
        "building, 0 s, about 1 min 30 s left",
        "building, 20 s, about 1 min 10 s left",
        "building, 40 s, about 50 s left",
        "building, 1 min 0 s, about 30 s left",
        "building: done after 1 min 5 s",
    ]


def test_a_terminal_gets_one_line_that_is_rewritten() -> None:
    """Every few tenths of a second the line is replaced, and it ends with the end."""
    clock, stream = Clock(), Terminal()
    with Progress(stream, clock).step("building") as step:
        let_pass(step, clock, 2)

    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.count("\r") >= 5
    assert text.endswith("building: done after 2 s\n")


def test_a_step_that_raises_is_said_to_have_failed() -> None:
    """The last line never reports success for a failed step."""
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError), Progress(stream, Clock()).step("dividing"):
        raise ZeroDivisionError

    assert stream.getvalue().splitlines()[-1] == "dividing: failed after 0 s"


@pytest.mark.parametrize(
    ("done", "elapsed", "left"),
    [
        pytest.param(0, 30, 70, id="by-the-table-at-first"),
        pytest.param(2, 30, 70, id="too-early-for-a-pace"),
        pytest.param(25, 30, 90, id="by-the-pace"),
        pytest.param(100, 30, 0, id="all-begun"),
        pytest.param(130, 30, 0, id="more-than-announced"),
        pytest.param(0, 300, 0, id="later-than-the-table"),
    ],
)
def test_what_is_left_is_told_by_the_pace_once_there_is_one(
    done: int, elapsed: float, left: float
) -> None:
    """The estimate never is negative, and never needs more than what is known."""
    step = Progress(io.StringIO(), Clock()).begin("building", 100)
    step.done, step.total = done, 100

    assert step.left_s(elapsed) == pytest.approx(left)


def test_a_stream_that_is_gone_stops_nothing() -> None:
    """A closed terminal does not stop the build."""
    stream = io.StringIO()
    progress = Progress(stream, Clock())
    stream.close()
    with progress.step("building") as step:
        step.tick()

    assert step.elapsed_s() == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        pytest.param(0.4, "0 s", id="nothing"),
        pytest.param(59.6, "1 min 0 s", id="rounds-up"),
        pytest.param(135, "2 min 15 s", id="minutes"),
    ],
)
def test_a_duration_is_said_as_people_do(seconds: float, text: str) -> None:
    """Minutes and seconds, no fractions."""
    assert duration(seconds) == text
