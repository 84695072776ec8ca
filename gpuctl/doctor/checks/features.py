"""Names what this API server lacks of what newer ones have, with the consequence. Pure.

Nothing here is a problem: gpu-scheduler runs without it. A resource counts by discovery, a field
of pods by the version, because discovery has no fields. ``checks/dra`` has the lines about DRA.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuctl.doctor.facts import Facts, Unread
from gpuctl.doctor.finding import Finding, ok, unread

MUTATING_POLICIES: Final = "mutatingadmissionpolicies"
#: From this version on kubelets write ``allocatedResourcesStatus`` (KEP 4680).
DEVICE_STATUS: Final = (1, 36)


def on_features(facts: Facts) -> Iterable[Finding]:
    """One line for each missing feature."""
    if isinstance(facts.served, Unread):
        yield unread("features", facts.served)
    elif MUTATING_POLICIES not in facts.served:
        yield ok(
            "features",
            "no MutatingAdmissionPolicy (Kubernetes 1.36): the chart's nodePartition adds no "
            "toleration, so pods need it in their spec",
        )
    if not isinstance(facts.version, Unread) and facts.version < DEVICE_STATUS:
        yield ok(
            "device status",
            "kubelets do not report the devices of pods (Kubernetes 1.36): no events GpuFailed, "
            "GpuAssignedTwice and DevicesLabelInvalid",
        )
