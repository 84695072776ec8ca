"""Limits for untrusted input at admission.

Any client that reaches the webhook can post a review, and any author can write an annotation. So
tiers are reserved only within limits, and the priority in a review counts only if the API server
could have set it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from scheduler.model import limits
from scheduler.model.admission import is_reservation
from scheduler.model.node import Namespace
from scheduler.model.pods.pod import Pod
from scheduler.state.webhook_scope import SYSTEM_NAMESPACE, WebhookScope

#: The two values above those that users can give a PriorityClass.
SYSTEM_PRIORITIES: Final = (2_000_000_000, 2_000_001_000)
PRIORITY_MIN: Final = -(2**31)
#: The reason that the API server itself gives to a pod with scheduling gates.
_GATED: Final = "SchedulingGated"


class _HasPod(Protocol):
    @property
    def pod(self) -> Pod: ...


def devices(pod: Pod) -> int:
    """The number of MIG instances and whole GPUs that a pod requests."""
    return sum(pod.gpu_requests.values())


def have_room(pod: Pod, reservations: Sequence[_HasPod]) -> bool:
    """Whether the pod's devices fit within the limits beside these reservations."""
    in_namespace = sum(devices(p.pod) for p in reservations if p.pod.namespace == pod.namespace)
    in_all = sum(devices(p.pod) for p in reservations)
    mine = devices(pod)
    return (
        mine + in_namespace <= limits.RESERVED_PER_NAMESPACE_MAX
        and mine + in_all <= limits.RESERVED_MAX
    )


def counted_priority(pod: Pod) -> int:
    """The effective priority of a pod under review.

    A value that no PriorityClass can have counts as the lowest. The two system values count in
    ``kube-system``; in other namespaces they count as the highest value of users.
    """
    if pod.priority <= limits.USER_PRIORITY_MAX:
        return max(pod.priority, PRIORITY_MIN)
    if pod.priority not in SYSTEM_PRIORITIES:
        return PRIORITY_MIN
    return pod.priority if pod.namespace == SYSTEM_NAMESPACE else limits.USER_PRIORITY_MAX


def has_condition(pod: Pod) -> bool:
    """Whether a scheduler has written a condition of the pod: authors cannot write conditions."""
    return bool(pod.condition.status) and pod.condition.reason != _GATED


def is_credible(tag: str, pod: Pod, namespace: Namespace, reach: WebhookScope) -> bool:
    """Whether a reservation that another process made was made by a gpu-scheduler."""
    if not is_reservation(tag) or pod.gates or not reach.covers(pod, namespace):
        return False
    return pod.scheduler_name == reach.scheduler_name or has_condition(pod)
