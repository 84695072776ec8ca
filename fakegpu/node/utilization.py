"""Utilization of a GPU that a pod holds: annotations, labels, and a script with steps.

    gpu-scheduler.io/fake-utilization: "0 for 5m, 80-100 for 1h, 20 for 10m, repeat"

The steps follow each other from the pod's start; without ``repeat`` the last step stays. The caller
passes the time. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from fakegpu import names
from fakegpu.node.pod_devices import PodUse, Step, Timeline
from fakegpu.topology.node_topology import Utilization

FULL: Final = Utilization(min=100, max=100)
IDLE: Final = Utilization()
_TRAIN: Final = Utilization(min=80, max=100)
#: By the label ``workloadKind``. None: by the request rate (Knative).
_BY_KIND: Final[Mapping[str, Utilization | None]] = {
    "TrainingWorkload": _TRAIN,
    "InteractiveWorkload": IDLE,
    "InferenceWorkload": None,
    "DistributedWorkload": None,
    "DistributedInferenceWorkload": None,
}
#: By the priority class of the pod's group.
_BY_PRIORITY: Final[Mapping[str, Utilization | None]] = {
    "train": _TRAIN,
    "build": IDLE,
    "interactive-preemptible": IDLE,
    "interactive": IDLE,
    "distributed": IDLE,
    "inference": None,
    "distributed-inference": None,
}
_RANGE: Final = re.compile(r"\s*([0-9]+)(?:\.[0-9]+)?\s*%?\s*(?:-+\s*([0-9]+))?.*", re.DOTALL)


def parse_utilization(text: str) -> Utilization | None:
    """``N`` or ``min-max`` in per cent: sorted, and limited to 100.

    >>> [parse_utilization(t) for t in ("15", "30-10", "150")] == [
    ...     Utilization(min=15, max=15), Utilization(min=10, max=30), FULL]
    True
    >>> parse_utilization("abc") is parse_utilization("-5") is None
    True
    """
    found = _RANGE.fullmatch(text[:64])
    if found is None:
        return None
    first = min(100, int(found[1]))
    second = min(100, int(found[2])) if found[2] else first
    return Utilization(min=min(first, second), max=max(first, second))


def parse_fraction(text: str) -> float:
    """The share of a GPU's memory that a pod uses: above 0, at most 1; 1 if invalid."""
    try:
        value = float(text[:64])
    except ValueError:
        return 1.0
    return value if math.isfinite(value) and 0 < value <= 1 else 1.0


def declared_utilization(
    phase: str,
    name: str,
    annotations: Mapping[str, str] | None,
    labels: Mapping[str, str] | None,
) -> bool:
    """Whether a pod has a utilization of its own."""
    return (
        phase != "Running"
        or name.startswith(names.IDLE_PREFIX)
        or parse_utilization((annotations or {}).get(names.UTILIZATION, "")) is not None
        or (labels or {}).get(names.WORKLOAD_KIND, "") in _BY_KIND
    )


def utilization(
    phase: str, name: str, annotations: Mapping[str, str], labels: Mapping[str, str]
) -> Utilization | None:
    """The utilization of a pod; None if it depends on the request rate (Knative)."""
    if phase != "Running" or name.startswith(names.IDLE_PREFIX):
        return IDLE
    written = parse_utilization(annotations.get(names.UTILIZATION, ""))
    if written is not None:
        return written
    return _BY_KIND.get(labels.get(names.WORKLOAD_KIND, ""), FULL)


def of_priority(priority_class: str) -> Utilization | None:
    """The utilization of a pod whose PodGroup has this priority class."""
    return _BY_PRIORITY.get(priority_class, FULL)


_STEP: Final = re.compile(r"([0-9]{1,3}(?:-[0-9]{1,3})?)%? for ([0-9]{1,6})(s|m|h)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
STEPS_MAX: Final = 64


def parse_timeline(text: str) -> Timeline | None:
    """The script; None if invalid.

    >>> parse_timeline("0 for 5m, repeat") == Timeline(steps=(Step(300, 0, 0),), repeats=True)
    True
    >>> [parse_timeline(text) for text in ("", "80", "repeat", "1 for 0s")]
    [None, None, None, None]
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
    """The pods with the utilization of their scripts at a time, and the next change."""
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
