"""Which tiers admissions looked at, as a metric.

A ladder is a text that anybody may write, so only profiles that some board has get a label of
their own.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

from scheduler.decide.admit import Admission
from scheduler.model import names
from scheduler.model.mig import BOARDS

_KNOWN: Final = frozenset(
    names.mig_profile(profile.resource)
    for board in BOARDS.values()
    for profile in (*board.profiles.values(), *board.aliases.values())
) | {names.mig_profile(names.GPU)}
OTHER: Final = "other"


def tell_tiers(counter: Counter, admission: Admission) -> None:
    """Count what became of each tier."""
    for one in admission.tried:
        for tier in one.tiers:
            counter.labels(label(tier), one.result).inc()
    if admission.granted is not None:
        for resource in admission.granted.pod.gpu_requests:
            counter.labels(label(names.mig_profile(resource)), "granted").inc()


def label(tier: str) -> str:
    """A tier without its labels; ``other`` where no board has it."""
    profile = tier.partition("[")[0]
    return profile if profile in _KNOWN else OTHER
