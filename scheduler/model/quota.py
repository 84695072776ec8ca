"""The GPU limits of a ResourceQuota, and whether it admits one more pod.

Mirrors ``k8s.io/apiserver/pkg/quota/v1`` and ``pkg/quota/v1/evaluator/core/pods.go``: a quota
counts a pod if all its scopes match the pod, and then rejects it if one resource in the pod's
requests would exceed its limit. Quotas without GPU limits are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.selector import Requirement

#: The prefix of an extended resource's name in a quota.
REQUESTS: Final = "requests."


class Quota(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """``hard`` and ``used`` by the resource's own name; ``scopes`` as comparisons.

    A scope without an operator is one with the operator Exists. An undecodable quota (see
    ``unread``) limits nothing here: the API server still enforces it.
    """

    namespace: str
    name: str
    hard: dict[str, int] = {}
    used: dict[str, int] = {}
    scopes: tuple[Requirement, ...] = ()
    unread: str = ""

    def counts(self, pod: Pod) -> bool:
        """Whether the quota applies to this pod."""
        return pod.namespace == self.namespace and all(_fits(one, pod) for one in self.scopes)

    def refusal(self, pod: Pod, pending: Mapping[str, int]) -> str | None:
        """The reason why the pod would exceed the quota, in one clause; None if it would not.

        ``pending`` are admitted pods that ``used`` does not contain yet.
        """
        for resource, hard in self.hard.items():
            need = pod.requests.get(resource, 0)
            used = self.used.get(resource, 0) + pending.get(resource, 0)
            if need > 0 and used + need > hard:
                return (
                    f"ResourceQuota {self.name} allows {hard} x {well_known.mig_profile(resource)}"
                    f" and {used} are used"
                )
        return None


def _fits(scope: Requirement, pod: Pod) -> bool:
    match scope.key:
        case "Terminating":
            return pod.has_deadline
        case "NotTerminating":
            return not pod.has_deadline
        case "BestEffort":
            return _is_best_effort(pod)
        case "NotBestEffort":
            return not _is_best_effort(pod)
        case "PriorityClass":
            return _has_class(scope, pod.priority_class)
    return False


def _is_best_effort(pod: Pod) -> bool:
    return not pod.requests.get(well_known.CPU) and not pod.requests.get(well_known.MEMORY)


def _has_class(scope: Requirement, name: str) -> bool:
    match scope.operator:
        case "In":
            return name in scope.values
        case "NotIn":
            return name not in scope.values
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
    return False
