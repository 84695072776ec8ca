"""Whether a pod's author and its controller let it be replaced at all."""

from __future__ import annotations

from typing import Final

from scheduler.model import well_known
from scheduler.model.crd.migration_blockers import BlockedBy, Blocker
from scheduler.model.pods.pod import Pod

#: Controllers that recreate a deleted pod as the same workload.
KINDS: Final = frozenset(("ReplicaSet", "StatefulSet", "Job"))


def missing_consent(pod: Pod) -> BlockedBy | None:
    """Why the pod must not be evicted at any time: its annotation or its controller."""
    setting = pod.annotations.get(well_known.RESTORE)
    if setting == "never":
        return BlockedBy(Blocker.OPTED_OUT, f"annotation {well_known.RESTORE} is never")
    if pod.owner is None:
        return BlockedBy(
            Blocker.NO_CONTROLLER, "the pod has no controller, so it would not be created again"
        )
    if pod.owner.word not in KINDS:
        return BlockedBy(
            Blocker.UNKNOWN_CONTROLLER,
            f"its controller is a {pod.owner.word}, whose pods are not migrated",
        )
    if pod.owner.kind == "Job" and setting != "auto":
        return BlockedBy(
            Blocker.JOB_NOT_OPTED_IN,
            f"pods of Jobs are migrated only with the annotation {well_known.RESTORE}: auto",
        )
    if pod.names_kueue:
        return BlockedBy(Blocker.MANAGED_BY_ANOTHER_QUEUE, "Kueue decides when the pod runs")
    return None
