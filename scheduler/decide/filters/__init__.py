"""Filters: each answers whether one pod may run on one node, and why not.

The order is kube-scheduler's (``pkg/scheduler/apis/config/v1/default_plugins.go``) with
the device filters last, and the first filter that rejects a node is the one that is heard.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.decide.filters import (
    affinity,
    avoided,
    devices,
    fit,
    memory,
    migstate,
    ports,
    readable,
    taints,
    unschedulable,
)
from scheduler.model.pod import Pod
from scheduler.model.reason import Reason
from scheduler.state.node_info import NodeInfo

Filter = Callable[[Pod, NodeInfo], tuple[Reason, ...]]

#: Filters that give all nodes of one class (``state/index/node_index``) the same answer.
CLASS_FILTERS: tuple[Filter, ...] = (unschedulable.check, taints.check, affinity.check)
NODE_FILTERS: tuple[Filter, ...] = (
    *(readable.check, ports.check, migstate.check, memory.check, fit.check),
    *(devices.check, avoided.check),
)
FILTERS = CLASS_FILTERS + NODE_FILTERS


def first_rejection(
    pod: Pod, node_info: NodeInfo, filters: tuple[Filter, ...] = FILTERS
) -> tuple[Reason, ...]:
    """The reasons of the first filter that rejects the node; empty when the pod fits."""
    for check in filters:
        reasons = check(pod, node_info)
        if reasons:
            return reasons
    return ()
