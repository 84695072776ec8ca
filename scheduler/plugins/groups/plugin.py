"""The reasons of gangs. They are about several pods at once, so ``decide/gang`` gives them."""

from __future__ import annotations

from typing import Final

from scheduler.framework.plugin import Plugin
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause

WAITING_FOR_MEMBERS: Final = ReasonCode(
    name="WAITING_FOR_MEMBERS",
    meaning="fewer members of the pod's group exist than are bound together",
    lifted_by=(RequeueCause.GROUP,),
    stage="GangScheduling",
    next_step=(
        "create the missing members or lower the group's minimum; a controller that creates"
        " workers only after the first pod runs needs a minimum of 1, or the annotation"
        " gpu-scheduler.io/group-from: role"
    ),
    words=(r"waiting for members ",),
    condition=ConditionReason.WAITING_FOR_GROUP,
)
GROUP_NOT_FOUND: Final = ReasonCode(
    name="GROUP_NOT_FOUND",
    meaning="the object with the minimum of the pod's group does not exist, or may not be read",
    lifted_by=(RequeueCause.GROUP,),
    stage="GangScheduling",
    next_step=(
        "create the PodGroup or the owner that the message names, give the scheduler the right to"
        " read it, or remove the label or annotation that names the group"
    ),
    words=(r"group not found: ",),
    condition=ConditionReason.WAITING_FOR_GROUP,
)

PLUGIN: Final = Plugin(name="GangScheduling", codes=(WAITING_FOR_MEMBERS, GROUP_NOT_FOUND))
