"""A PodDisruptionBudget, as far as preemption reads it."""

from __future__ import annotations

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_affinity import PodSelector


class DisruptionBudget(msgspec.Struct, frozen=True, kw_only=True):
    """``allowed`` is the number of pods that may be disrupted now (``status.disruptionsAllowed``).

    ``disrupted`` are the names of pods whose eviction the API server has counted already.
    """

    namespace: str
    name: str
    selector: PodSelector = PodSelector()
    allowed: int = 0
    disrupted: frozenset[str] = frozenset()

    def covers(self, pod: Pod) -> bool:
        """Whether the end of a pod is a disruption that this budget has to allow.

        Same as ``pkg/scheduler/framework/preemption/util.go`` FilterVictimsWithPDBViolation: an
        empty selector matches no pod.
        """
        return (
            pod.namespace == self.namespace
            and bool(pod.labels)
            and bool(self.selector.requirements)
            and self.selector.matches(pod.labels)
            and pod.name not in self.disrupted
        )
