"""A metric of the tiers that admissions checked.

Any author may write a ladder, so only existing profiles are label values.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

from scheduler.decide.admission.admit import Admission
from scheduler.model import well_known
from scheduler.model.mig.layout import GPU_MODELS

_KNOWN: Final = frozenset(
    well_known.mig_profile(profile.resource)
    for gpu_model in GPU_MODELS.values()
    for profile in (*gpu_model.profiles.values(), *gpu_model.aliases.values())
) | {well_known.mig_profile(well_known.GPU)}
OTHER: Final = "other"


def count_tier_attempts(counter: Counter, admission: Admission) -> None:
    """Count the result of each tier."""
    for one in admission.tried:
        for tier in one.tiers:
            counter.labels(label(tier), one.result).inc()
    if admission.granted is not None:
        for resource in admission.granted.pod.gpu_requests:
            counter.labels(label(well_known.mig_profile(resource)), "granted").inc()


def label(tier: str) -> str:
    """A tier without its labels; ``other`` if no board has it."""
    profile = tier.partition("[")[0]
    return profile if profile in _KNOWN else OTHER
