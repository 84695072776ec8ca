"""Whether a node change helps a rejected pod; checked before the pod is requeued.

Must never: say no where a decision would say yes, nor leave a reason out: the pod would stay
unschedulable.
"""

from __future__ import annotations

from scheduler.decide.schedule_one import pre_filter
from scheduler.decide.view import beside_nominated
from scheduler.framework.budget import is_light
from scheduler.framework.pipeline import (
    EVERY_NODE,
    Pipeline,
    first_bound_rejection,
    first_rejection,
)
from scheduler.framework.plugin import Reasons, Refuse
from scheduler.framework.reason_codes import NO_NODES
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason, is_resolvable
from scheduler.state.node_info import NodeInfo
from scheduler.state.queue.requeue_conditions import RequeueCondition, requeue_condition_at_node

GONE: Reasons = (Reason(code=NO_NODES, text="the node is gone"),)


def condition_at_node(
    view: View, pipeline: Pipeline, pod: Pod, node_name: str
) -> RequeueCondition | None:
    """The requeue condition of the pod at the named node; None if the pod may fit there, or may
    preempt other pods there.

    A pod that takes many steps is not checked at every change: it is retried after its backoff.
    """
    if not is_light(pod):
        return None
    reasons = pipeline.queueing_hint(view, pod)
    if reasons is None:
        node_info = view.at(node_name)
        reasons = GONE if node_info is None else _at_node(view, pipeline, pod, node_info)
    if not reasons:
        return None
    if is_resolvable(reasons) and pipeline.post_filter_hint(view, pod, node_name):
        return None
    return requeue_condition_at_node(reasons)


def _at_node(view: View, pipeline: Pipeline, pod: Pod, node_info: NodeInfo) -> Reasons:
    """What the filters say of the node; pods that are nominated for it count as in a decision. A
    refusal of PreFilter is left to the decision.
    """
    reasons = first_rejection(pod, node_info, pipeline.points(pod).filters)
    if reasons:
        return reasons  # pods on top do not lift it
    assert node_info.node is not None
    name, filtered = node_info.node.name, pipeline.pre_filter(view, pod)
    if filtered is EVERY_NODE:  # the other nodes do not matter
        beside = beside_nominated(view, pod, name)
    else:
        beside, filtered = pre_filter(view, pod, pipeline)
    if beside is not view:
        node_info = beside.at(name) or node_info
        reasons = first_rejection(pod, node_info, pipeline.points(pod).node_filters)
    if reasons or isinstance(filtered, Refuse):
        return reasons
    return first_bound_rejection(node_info, filtered.bound)
