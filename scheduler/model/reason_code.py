"""A reason code: everything about one kind of rejection, declared by the plugin that gives it.

The plugins' codes and those of ``framework/reason_codes`` are all there are
(``plugins.REASON_CODES``); ``docs/reasons.md`` is generated from them.
"""

from __future__ import annotations

import enum

import msgspec

from scheduler.model.condition_reason import ConditionReason


class RequeueCause(enum.Enum):
    """What would have to change in the cluster before a retry can help."""

    POD = "the pod itself changed"
    FREED = "a pod that held something on a node went away"
    NODE = "a node appeared, or its labels, taints or allocatable changed"
    NAMESPACE = "a namespace's labels or annotations changed"
    DEVICES = "which devices a pod holds became known"
    OWNER = "a pod of the same owner went away"
    AVOIDED = "the pause of a node that rejected pods is over"
    PAUSE = "a pause that grows to a minute is over"
    ADMISSION = "the pod is created again, and this time the webhook is asked"


class ReasonCode(msgspec.Struct, frozen=True, kw_only=True, cache_hash=True):
    """One kind of rejection.

    ``meaning`` is one clause; ``lifted_by`` are the events after which a retry may succeed;
    ``stage`` names the plugin, in kube-scheduler's words where it has one; ``next_step`` is what a
    person does about it; ``words`` are regular expressions that match the start of the code's
    sentences and of no other code's. ``condition`` is the reason of the condition ``PodScheduled``;
    None where the answer is one node's and another node may take the pod.

    What a pod waits for at RequeueCause.FREED: the resource that the reason names with
    ``is_about_resource``, else the resource ``frees``, else the end of any pod. With
    ``is_for_siblings`` the answer holds for all interchangeable pods of one workload and map.
    """

    name: str
    meaning: str
    lifted_by: tuple[RequeueCause, ...]
    stage: str
    next_step: str
    words: tuple[str, ...]
    condition: ConditionReason | None = None
    is_about_resource: bool = False
    frees: str = ""
    is_for_siblings: bool = False
