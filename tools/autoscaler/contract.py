"""Which pods request a node, as the two autoscalers read them from the API. Pure.

cluster-autoscaler 1.37 (``utils/kubernetes/listers.go``, ``core/podlistprocessor``) and Karpenter
1.14 (``pkg/utils/pod``, ``IsProvisionable``). Of a pod they read nothing else of interest here:
whether a new node takes the pod is for their own simulation (``plan``).
"""

from __future__ import annotations

import enum
from typing import Any

Json = dict[str, Any]


class Reading(enum.StrEnum):
    """Whose rules are played."""

    CLUSTER_AUTOSCALER = "cluster-autoscaler"
    KARPENTER = "karpenter"


def requests_node(pod: Json, reading: Reading) -> bool:
    """Whether the autoscaler adds a node for the pod, if one would help.

    Karpenter does not read the status of the condition, and leaves out pods of every node.
    """
    condition = _scheduled(pod)
    if pod["metadata"].get("deletionTimestamp") or node_of(pod) or nominated_node(pod):
        return False
    if condition.get("reason") != "Unschedulable":
        return False
    if reading is Reading.CLUSTER_AUTOSCALER:
        return condition.get("status") == "False"
    owners = pod["metadata"].get("ownerReferences", ())
    return not any(one["kind"] in ("DaemonSet", "Node") for one in owners)


def node_of(pod: Json) -> str:
    """The node of a bound pod."""
    return str(pod["spec"].get("nodeName") or "")


def nominated_node(pod: Json) -> str:
    """The node that a pod without a node waits for."""
    return "" if node_of(pod) else str(pod.get("status", {}).get("nominatedNodeName") or "")


def _scheduled(pod: Json) -> Json:
    conditions = pod.get("status", {}).get("conditions", ())
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})
