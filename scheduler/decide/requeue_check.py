"""Whether a node change helps a rejected pod; checked before the pod is requeued.

Must never: say no where a decision would say yes, nor leave a reason out: the pod would stay
unschedulable.
"""

from __future__ import annotations

from scheduler.framework.budget import is_light
from scheduler.framework.pipeline import Pipeline, first_bound_rejection, first_rejection
from scheduler.framework.plugin import Reasons, Refuse
from scheduler.framework.reason_codes import NO_NODES
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.state.node_info import NodeInfo
from scheduler.state.queue.requeue_conditions import RequeueCondition, requeue_condition_at_node

GONE: Reasons = (Reason(code=NO_NODES, text="the node is gone"),)


def condition_at_node(
    view: View, pipeline: Pipeline, pod: Pod, node_name: str
) -> RequeueCondition | None:
    """The requeue condition of the pod at the named node; None if the pod may fit there.

    A pod that takes many steps is not checked at every change: it is retried after its backoff.
    """
    if not is_light(pod):
        return None
    reasons = pipeline.queueing_hint(view, pod)
    if reasons is None:
        node_info = view.at(node_name)
        if node_info is None:
            reasons = GONE
        else:
            reasons = first_rejection(pod, node_info, pipeline.points(pod).filters) or _of_bound(
                view, pipeline, pod, node_info
            )
    return requeue_condition_at_node(reasons) if reasons else None


def _of_bound(view: View, pipeline: Pipeline, pod: Pod, node_info: NodeInfo) -> Reasons:
    """What bound filters say; a refusal of PreFilter is left to the decision."""
    filtered = pipeline.pre_filter(view, pod)
    return () if isinstance(filtered, Refuse) else first_bound_rejection(node_info, filtered.bound)
