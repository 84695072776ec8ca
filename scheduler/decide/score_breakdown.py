"""The score of the chosen node and of the runner-up of a bin-packed placement.

A decision stops at the best node. This module repeats the search without that node, so it costs
about as much as the decision; the journal limits how often it runs.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.decide import best_fit, compared_nodes
from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.decide.view import WhatIfView, beside_nominated
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline, PreFiltered
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig.instance_plan import creation_cost
from scheduler.plugins.node_resources_fit import leftover
from scheduler.state.cache.cluster import Cluster
from scheduler.state.node_info import NodeInfo

PARTS: Final = (
    *("soft_penalty", "dynamic_mig", "cost_delta", "new_instances"),
    *("requested_left", "others_left", "milli_cpu_left"),
)


#: ``decided_by`` where no part decided.
COMPARISON: Final = "comparison"
IMAGES: Final = "images"
DATA: Final = "data"
#: The part before which the pod's data counts.
LATE: Final = "milli_cpu_left"


class NodeScore(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One node's score, in the order in which scores are compared (``Pipeline.score``).

    ``soft_penalty`` counts the pod's unmet soft preferences. The next three are for dynamic MIG:
    whether the node creates instances on request, the increase of the layout cost, and the number
    of instances that do not exist yet. The others are the free amounts after the placement: devices
    of the requested kinds (memory slices with dynamic MIG), other devices, and milli cpu.
    """

    node: str
    soft_penalty: int
    requested_left: int
    others_left: int
    milli_cpu_left: int
    dynamic_mig: int = 0
    cost_delta: float = 0.0
    new_instances: int = 0


class Ranking(msgspec.Struct, frozen=True, rename="camel"):
    """The two best nodes; no runner-up if no other node fits.

    ``decided_by`` is the first part in which they differ, ``margin`` the difference. COMPARISON:
    all feasible nodes were compared by normalized scores, of which the parts say nothing.
    """

    winner: NodeScore
    runner_up: NodeScore | None = None
    decided_by: str = ""
    margin: float = 0


def node_before(cluster: Cluster, placement: Placement) -> NodeInfo | None:
    """The node of a placement as the decision saw it, for ``rank`` after the state contains the
    placement.
    """
    node_info = beside_nominated(cluster, placement.pod).at(placement.node_name)
    return node_info.copy() if node_info is not None else None


def rank(
    cluster: Cluster, placement: Placement, pipeline: Pipeline, won: NodeInfo | None = None
) -> Ranking | None:
    """The ranking behind a placement, on the state of the decision; None for a mapped pod.

    If the state contains the placement already, ``won`` is its node without the placement.
    """
    pod = placement.pod
    view = beside_nominated(cluster, pod)
    is_counted = won is not None
    won = won or view.at(placement.node_name)
    if pod.map_text is not None or won is None or won.node is None:
        return None
    without = view if isinstance(view, WhatIfView) else WhatIfView(cluster)
    # A node without any capacity, not even for one pod, passes no filter.
    without.changed[placement.node_name] = NodeInfo(
        msgspec.structs.replace(won.node, allocatable={})
    )
    if is_counted:
        without.discount(pod, placement.node_name)
    filtered = pipeline.pre_filter(without, pod)
    bound = filtered.bound if isinstance(filtered, PreFiltered) else ()
    work = Budget(pipeline.decision_steps_max)
    nodes = FeasibleNodes(without, pod, pipeline, work, bound)
    second = best_fit.Search(nodes).best_node()
    winner = _standing(pod, won, pipeline)
    if second is None:
        return Ranking(winner)
    runner_up = _standing(pod, second, pipeline)
    if compared_nodes.are_compared(nodes):
        return Ranking(winner, runner_up, COMPARISON)
    return Ranking(winner, runner_up, *_difference(view, pod, pipeline, won, second))


def _difference(
    view: View, pod: Pod, pipeline: Pipeline, won: NodeInfo, second: NodeInfo
) -> tuple[str, float]:
    """The first part in which the nodes differ, and by how much."""
    winner, runner_up = (_standing(pod, one, pipeline) for one in (won, second))
    data = pipeline.points(pod).data_nodes(view, pod)
    for part in PARTS:
        if part == LATE and data is not None and (more := data.score(won) - data.score(second)):
            return DATA, more
        if part == "others_left" and not pod.gpu_requests:
            margin: float = second.device_rank - won.device_rank
        else:
            margin = getattr(runner_up, part) - getattr(winner, part)
        if margin:
            return part, margin
    tie_score = pipeline.points(pod).tie_score(view, pod)
    if tie_score is not None and (margin := tie_score(second) - tie_score(won)):
        return IMAGES, margin
    return "name", 0


def _standing(pod: Pod, node_info: NodeInfo, pipeline: Pipeline) -> NodeScore:
    assert node_info.node is not None
    left = leftover(pod, node_info)
    penalty = pipeline.soft_penalty(pod, node_info.node)
    return NodeScore(node_info.node.name, penalty, *left, *creation_cost(pod, node_info))
