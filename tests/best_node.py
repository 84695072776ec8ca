"""The node that best fit chooses."""

from __future__ import annotations

from scheduler.decide.best_fit import Search
from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.framework.budget import Budget
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.plugins import default_pipeline
from scheduler.state.node_info import NodeInfo

PACKING = default_pipeline(Settings(maps_allow="all", non_gpu="pack"))
SPREADING = default_pipeline(Settings(maps_allow="all", placement="spread", non_gpu="pack"))


def best_node(
    view: View, newcomer: Pod, work: Budget | None = None, *, spread: bool = False
) -> NodeInfo | None:
    """The best node by best fit, packed or spread; by default without a limit of steps."""
    pipeline = SPREADING if spread else PACKING
    return Search(FeasibleNodes(view, newcomer, pipeline, work or Budget(10**9))).best_node()
