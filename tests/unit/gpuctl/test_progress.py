"""The progress bar: after a second, and only on a terminal."""

from __future__ import annotations

import io

import pytest

from gpuctl.output.progress import ProgressBar


class Stream(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.mark.parametrize(
    ("is_terminal", "elapsed_s", "is_shown"),
    [
        pytest.param(True, 0.9, False, id="a-short-input"),
        pytest.param(True, 1.1, True, id="a-long-input"),
        pytest.param(False, 60.0, False, id="no-terminal"),
    ],
)
def test_when_the_bar_is_shown(is_terminal: bool, elapsed_s: float, is_shown: bool) -> None:
    stream, now = Stream(is_terminal=is_terminal), [0.0]

    with ProgressBar(stream, clock=lambda: now[0]) as patience:
        now[0] = elapsed_s
        patience.read()
        patience.decided(40)

    assert ("deciding" in stream.getvalue()) is is_shown
