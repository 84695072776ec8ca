"""The reason codes of the pipeline itself."""

from __future__ import annotations

from typing import Final

from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import NO_NODES_TEXT, Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause

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
    meaning="one scheduling decision for the pod exceeds the step limit",
    lifted_by=(RequeueCause.POD,),
    stage="Pod",
    next_step=(
        "use fewer labels, values and tolerations, or fewer MIG instances in one pod; an"
        " administrator can raise decisionStepsMax in the configuration"
    ),
    words=(r"TooComplex: ",),
    condition=ConditionReason.TOO_COMPLEX,
)
INTERNAL = ReasonCode(
    name="INTERNAL",
    meaning=(
        "the scheduler raised an exception for this pod; the message has the id of the log line"
    ),
    lifted_by=(
        RequeueCause.POD,
        RequeueCause.PAUSE,
    ),
    stage="Pod",
    next_step=(
        "find the id in the scheduler's log and report the error if it persists; the"
        " scheduler retries with a backoff, and at once when the pod changes"
    ),
    words=(r"internal error [0-9a-f]+",),
    condition=ConditionReason.SCHEDULER_ERROR,
)

CODES: Final = (NO_NODES, TOO_COMPLEX, INTERNAL)

NO_NODES_HERE: Final = Reason(code=NO_NODES, text=NO_NODES_TEXT, resolvable=False)
