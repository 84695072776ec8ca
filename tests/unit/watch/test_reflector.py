"""How long a reflector pauses, and how long its watches last: figures, no server."""

from __future__ import annotations

import itertools
import random

import pytest

from scheduler.watch.reflector import Limits, backoff_s


def test_absent_server_gets_ten_requests_in_40s_and_is_found_in_10s() -> None:
    """Field case C08 B, for every course that the jitter can take."""
    for seed in range(300):
        limits, rng = Limits(), random.Random(seed)
        pauses = [backoff_s(limits, failures, rng) for failures in range(1, 30)]
        moments = list(itertools.accumulate(pauses))
        assert sum(1 for moment in moments if moment < 40) <= 10
        assert max(pauses) < 9


@pytest.mark.parametrize("silence_s", [2.0, 8.0, 70.0])
def test_a_watch_ends_by_itself_before_it_counts_as_silent(silence_s: float) -> None:
    shortest, longest = Limits(silence_max_s=silence_s).watch_s

    assert 1 <= shortest <= longest < silence_s
