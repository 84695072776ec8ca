"""Which pods the two autoscalers take for a wish for nodes, as they read them from the API.

cluster-autoscaler 1.37 (``utils/kubernetes/listers.go``, ``core/podlistprocessor``) and Karpenter
1.14 (``pkg/utils/pod``, ``IsProvisionable``). Both look at nothing else of a pod that is of
interest here: whether a new node would do is for their own simulation.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def _scheduled(pod: Json) -> Json:
    conditions = pod.get("status", {}).get("conditions", ())
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def _may_be(pod: Json) -> bool:
    is_gone = bool(pod["metadata"].get("deletionTimestamp"))
    has_node = pod["spec"].get("nodeName") or pod.get("status", {}).get("nominatedNodeName")
    return not is_gone and not has_node


def cluster_autoscaler_wants_a_node(pod: Json) -> bool:
    """PodScheduled is False for the reason Unschedulable, and no node is nominated."""
    condition = _scheduled(pod)
    said = (condition.get("status"), condition.get("reason"))
    return _may_be(pod) and said == ("False", "Unschedulable")


def karpenter_wants_a_node(pod: Json) -> bool:
    """The same, whatever the condition's status."""
    owners = pod["metadata"].get("ownerReferences", ())
    is_of_nodes = any(one["kind"] in ("DaemonSet", "Node") for one in owners)
    is_it = _scheduled(pod).get("reason") == "Unschedulable"
    return _may_be(pod) and is_it and not is_of_nodes


def wants_a_node(pod: Json) -> bool:
    """What both say; they must agree about every pod of ours."""
    found = {cluster_autoscaler_wants_a_node(pod), karpenter_wants_a_node(pod)}
    assert len(found) == 1, "the autoscalers read this pod differently"
    return found.pop()
