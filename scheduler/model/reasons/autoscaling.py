"""What a pending pod shows to autoscalers: the reason of ``PodScheduled``, and the nominated node.

Both autoscalers read nothing else of a pod (docs/autoscalers.md). cluster-autoscaler counts a pod
with a nominated node on that node; Karpenter leaves it out. Both take the reason ``Unschedulable``
without a nominated node as the request for a node.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from scheduler.model.reasons.condition_reason import ConditionReason as R

_DIGITS: Final = re.compile(r"\d+")


class PodState(msgspec.Struct, frozen=True):
    """Pods in one state: ``text`` is for docs; ``names_node`` where a node is nominated."""

    text: str
    reasons: tuple[R, ...]
    names_node: bool = False

    @property
    def adds_node(self) -> bool:
        """Whether autoscalers add a node for such a pod."""
        return R.UNSCHEDULABLE in self.reasons and not self.names_node


#: Every reason is in one state, except that two states request a node.
STATES: Final = (
    PodState("no node has room, and another node would help", (R.UNSCHEDULABLE,)),
    PodState(
        "all members of the group exist and do not all fit: every member without a node",
        (R.UNSCHEDULABLE,),
    ),
    PodState("members of the group are missing, or its PodGroup", (R.WAITING_FOR_GROUP,)),
    PodState("the quota of the team is used up", (R.QUOTA_EXCEEDED,)),
    PodState(
        "a node gets the capacity: pods are preempted there, a migration or a new MIG"
        " configuration is under way, MIG instances are created, volumes are bound",
        (R.WAITING_FOR_CAPACITY,),
        names_node=True,
    ),
    PodState("the Binding failed, or an internal error; it is tried again", (R.SCHEDULER_ERROR,)),
    PodState("no GPU model of the cluster has the MIG profile", (R.NO_SUCH_PROFILE,)),
    PodState(
        "a claim or its class has to change, or to become free",
        (R.WAITING_FOR_VOLUME, R.WAITING_FOR_CLAIM),
    ),
    PodState(
        "the map names the node, or its lines are in use",
        (
            *(R.WAITING_FOR_MAPPED_NODE, R.DEVICE_NOT_FOUND, R.NO_FREE_MAP_LINE),
            *(R.INDEX_HELD, R.INDEX_HELD_BY_OLDER_REVISION),
        ),
    ),
    PodState(
        "no node has the label of the level that its topology requires", (R.UNKNOWN_TOPOLOGY,)
    ),
    PodState(
        "only another pod, map or namespace helps",
        (
            *(R.UNREADABLE_POD, R.UNSUPPORTED_FIELD, R.TOO_COMPLEX, R.NO_DEVICE_FOR_ENV),
            *(R.NOT_MUTATED, R.MAPS_NOT_ALLOWED, R.INVALID_MAP, R.MAP_CHANGED),
            *(R.INDEX_UNKNOWN, R.INDEX_NOT_IN_MAP),
        ),
    ),
)
#: The reason of every pod with a nominated node.
_NOMINATED: Final = next(state.reasons[0] for state in STATES if state.names_node)


def shown(reason: R, *, nominated: str, awaited: str) -> tuple[R, str]:
    """The reason and the nominated node of a rejected pod.

    ``nominated`` is the node where pods end for it, ``awaited`` the one where a migration or a new
    MIG configuration makes room; that helps only where another node would help, too.
    """
    node_name = nominated or (awaited if reason is R.UNSCHEDULABLE else "")
    return (_NOMINATED, node_name) if node_name else (reason, "")


def text_class(message: str) -> str:
    """A message without its numbers: messages of one class differ in amounts only.

    >>> text_class("waiting for members 3/4 of group train")
    'waiting for members #/# of group train'
    """
    return _DIGITS.sub("#", message)
