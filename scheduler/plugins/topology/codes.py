"""The reasons about levels of the network topology."""

from __future__ import annotations

from typing import Final

from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause

_STAGE: Final = "TopologyPlacement"

OUTSIDE_DOMAIN: Final = ReasonCode(
    name="OUTSIDE_DOMAIN",
    meaning="the node is not in the topology domain of the pod's group",
    lifted_by=(RequeueCause.NODE, RequeueCause.PODS_IN_DOMAIN),
    stage=_STAGE,
    next_step=(
        "free room in the domain where the group's pods are, or request a farther level with"
        " gpu-scheduler.io/topology-required"
    ),
    words=(r"node\(s\) outside the topology domain",),
)
NO_TOPOLOGY_LABEL: Final = ReasonCode(
    name="NO_TOPOLOGY_LABEL",
    meaning="the node lacks the label of the level within which the pod's group stays",
    lifted_by=(RequeueCause.NODE, RequeueCause.POD),
    stage=_STAGE,
    next_step="label the node, or request another level with gpu-scheduler.io/topology-required",
    words=(r"node\(s\) without the label \S+ of the required topology",),
)
UNKNOWN_LEVEL: Final = ReasonCode(
    name="UNKNOWN_LEVEL",
    meaning="no node has the label of the level within which the pod's group stays",
    lifted_by=(RequeueCause.NODE, RequeueCause.PODS_IN_DOMAIN, RequeueCause.POD),
    stage=_STAGE,
    next_step="correct the label key in the annotation, or label the nodes",
    words=(r"no node has the label \S+ of the required topology",),
    condition=ConditionReason.UNKNOWN_TOPOLOGY,
)
NO_DOMAIN_FITS: Final = ReasonCode(
    name="NO_DOMAIN_FITS",
    meaning="no domain of the required level has room for the members that are placed together",
    lifted_by=(
        RequeueCause.FREED,
        RequeueCause.NODE,
        RequeueCause.AVOIDED,
        RequeueCause.RESOURCE_DEVICES,
        RequeueCause.PODS_IN_DOMAIN,
        RequeueCause.GROUP,
    ),
    stage=_STAGE,
    next_step=(
        "free room in one domain, lower the group's minimum, or request a farther level; with"
        " gpu-scheduler.io/topology-preferred the group may be split"
    ),
    words=(r"no domain of \S+ has room for ", r"the domain of \S+ where "),
)
CODES: Final = (OUTSIDE_DOMAIN, NO_TOPOLOGY_LABEL, UNKNOWN_LEVEL, NO_DOMAIN_FITS)
