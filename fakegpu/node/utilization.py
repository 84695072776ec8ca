"""How busy a GPU looks that a pod holds: the annotations and labels by which users say it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

from fakegpu import names
from fakegpu.topology.node_topology import Utilization

FULL: Final = Utilization(min=100, max=100)
IDLE: Final = Utilization()
_TRAIN: Final = Utilization(min=80, max=100)
#: By the label ``workloadKind``. None: as many as requests come in (Knative).
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
    """``N`` or ``min-max`` in per cent: swapped if need be, and never beyond 100.

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
    """The share of a GPU's memory that a pod uses: above 0, at most 1, and 1 unless said well."""
    try:
        value = float(text[:64])
    except ValueError:
        return 1.0
    return value if math.isfinite(value) and 0 < value <= 1 else 1.0


def said(
    phase: str,
    name: str,
    annotations: Mapping[str, str] | None,
    labels: Mapping[str, str] | None,
) -> bool:
    """Whether a pod says itself how busy it is."""
    return (
        phase != "Running"
        or name.startswith(names.IDLE_PREFIX)
        or parse_utilization((annotations or {}).get(names.UTILIZATION, "")) is not None
        or (labels or {}).get(names.WORKLOAD_KIND, "") in _BY_KIND
    )


def utilization(
    phase: str, name: str, annotations: Mapping[str, str], labels: Mapping[str, str]
) -> Utilization | None:
    """What a pod shows; None where its requests have to be asked for (Knative)."""
    if phase != "Running" or name.startswith(names.IDLE_PREFIX):
        return IDLE
    written = parse_utilization(annotations.get(names.UTILIZATION, ""))
    if written is not None:
        return written
    return _BY_KIND.get(labels.get(names.WORKLOAD_KIND, ""), FULL)


def of_priority(priority_class: str) -> Utilization | None:
    """What a pod shows whose PodGroup has this priority class."""
    return _BY_PRIORITY.get(priority_class, FULL)
