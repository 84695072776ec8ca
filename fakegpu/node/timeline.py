"""Utilisation by a script: one step after the other from a pod's start, as its annotation says.

    gpu-scheduler.io/fake-utilization: "0 for 5m, 80-100 for 1h, 20 for 10m, repeat"

Without ``repeat`` the last step stays. Pure: who asks says when it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from fakegpu.node.pod_devices import PodUse, Step, Timeline
from fakegpu.node.utilization import parse_utilization

_STEP: Final = re.compile(r"([0-9]{1,3}(?:-[0-9]{1,3})?)%? for ([0-9]{1,6})(s|m|h)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
STEPS_MAX: Final = 64


def parse(text: str) -> Timeline | None:
    """The script; None where it cannot be read.

    >>> parse("0 for 5m, repeat") == Timeline(steps=(Step(300, 0, 0),), repeats=True)
    True
    >>> parse("") is parse("80") is parse("repeat") is parse("1 for 0s") is None
    True
    """
    parts = [part.strip() for part in text[:4096].split(",")]
    repeats = parts[-1] == "repeat"
    found = [_STEP.fullmatch(part) for part in (parts[:-1] if repeats else parts)]
    steps = []
    for match in found[:STEPS_MAX]:
        busy = parse_utilization(match[1]) if match else None
        if match is None or busy is None or int(match[2]) == 0:
            return None
        steps.append(Step(int(match[2]) * _SECONDS[match[3]], busy.min, busy.max))
    return Timeline(steps=tuple(steps), repeats=repeats) if steps else None


def as_of(pods: Iterable[PodUse], wall: float) -> tuple[tuple[PodUse, ...], float | None]:
    """The pods as busy as their scripts say at a moment, and when that changes next."""
    shown: list[PodUse] = []
    changes: list[float] = []
    for pod in pods:
        if pod.timeline is None or pod.started is None:
            shown.append(pod)
            continue
        step, ends_at = _at(pod.timeline, pod.started, wall)
        shown.append(msgspec.structs.replace(pod, load=step.load))
        if ends_at is not None:
            changes.append(ends_at)
    return tuple(shown), min(changes, default=None)


def _at(timeline: Timeline, started: float, wall: float) -> tuple[Step, float | None]:
    whole = sum(step.seconds for step in timeline.steps)
    passed = max(0.0, wall - started)
    if passed >= whole and not timeline.repeats:
        return timeline.steps[-1], None
    ends_at = started + (passed // whole * whole if timeline.repeats else 0)
    for step in timeline.steps:
        ends_at += step.seconds
        if wall < ends_at:
            return step, ends_at
    return timeline.steps[0], ends_at + timeline.steps[0].seconds
