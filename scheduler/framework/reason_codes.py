"""Reason codes that no plugin gives: the pipeline's own."""

from __future__ import annotations

from typing import Final

from scheduler.model.condition_reason import ConditionReason
from scheduler.model.reason import NO_NODES_TEXT, Reason
from scheduler.model.reason_code import ReasonCode, RequeueCause

NO_NODES = ReasonCode(
    name="NO_NODES",
    meaning="the cluster has no nodes",
    lifted_by=(RequeueCause.NODE,),
    stage="Pod",
    next_step="add a node",
    words=(r"no nodes available to schedule pods",),
)
TOO_COMPLEX = ReasonCode(
    name="TOO_COMPLEX",
    meaning="deciding about the pod would take more steps than one decision may take",
    lifted_by=(RequeueCause.POD,),
    stage="Pod",
    next_step=(
        "name fewer labels, values and tolerations, or fewer MIG instances in"
        " one pod; an administrator may raise decisionStepsMax in the"
        " configuration"
    ),
    words=(r"TooComplex: ",),
    condition=ConditionReason.TOO_COMPLEX,
)
INTERNAL = ReasonCode(
    name="INTERNAL",
    meaning=("the scheduler raised an exception at this pod; its log has the id in the sentence"),
    lifted_by=(
        RequeueCause.POD,
        RequeueCause.PAUSE,
    ),
    stage="Pod",
    next_step=(
        "nothing, if it passes; else look for the id in the scheduler's log and"
        " report what stands there; the pod is tried again by itself, and at"
        " once when it is changed"
    ),
    words=(r"internal error [0-9a-f]+",),
    condition=ConditionReason.SCHEDULER_ERROR,
)

CODES: Final = (NO_NODES, TOO_COMPLEX, INTERNAL)

NO_NODES_HERE: Final = Reason(code=NO_NODES, text=NO_NODES_TEXT, resolvable=False)
