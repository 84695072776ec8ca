"""A pod whose group has to stay within one domain of a level: the nodes that this leaves.

The first pod of a group may use every node with the label, the others the domain where it is.
``decide/topology`` chooses the domain, for the whole group where it is a gang.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.decision import Placement
from scheduler.framework.plugin import FITS, BoundFilter, Plugin, Reasons, Refuse, ReserveContext
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Reason
from scheduler.plugins.topology.codes import CODES, NO_TOPOLOGY_LABEL, OUTSIDE_DOMAIN, UNKNOWN_LEVEL
from scheduler.state.node_info import NodeInfo
from scheduler.state.topology.levels import keys_down_to

_OUTSIDE: Final[Reasons] = (
    Reason(
        code=OUTSIDE_DOMAIN,
        text="node(s) outside the topology domain of the pod's group",
        resolvable=False,
    ),
)
#: Characters of a label key in a reason.
SHOWN_MAX: Final = 80


def levels_of(view: View, settings: Settings) -> tuple[str, ...]:
    """The levels of the configuration, else those that the labels of GPU nodes show; far first."""
    return settings.topology_levels or view.topology.detected_levels


def within(nodes: frozenset[str]) -> BoundFilter:
    """No other node than these."""

    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        return FITS if node_info.node.name in nodes else _OUTSIDE

    return BoundFilter(check, only=nodes)


def pre_filter(view: View, pod: Pod, settings: Settings) -> Refuse | BoundFilter | None:
    """Require the label of the level, and the domain of the pods that are placed."""
    request = pod.topology
    if request is None or not request.required:
        return None
    key = request.required
    levels = levels_of(view, settings)
    paths = view.topology.paths(keys_down_to(key, levels))
    found = {paths.path_of(name) for name in view.topology.families.nodes_of(pod)}
    used = [path for path in found if path and path[-1] is not None]
    if used:
        return within(frozenset().union(*(paths.nodes_of[path] for path in used)))
    if not view.index.labels.is_there(key):
        return Refuse(unknown_level(key, levels))

    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        return FITS if key in node_info.node.labels else _without(key)

    return BoundFilter(check)


def unknown_level(key: str, levels: tuple[str, ...]) -> Reason:
    """No node has the label of a required level."""
    text = f"no node has the label {key[:SHOWN_MAX]} of the required topology; {_known(levels)}"
    return Reason(code=UNKNOWN_LEVEL, text=text, resolvable=False)


def reserve(context: ReserveContext, placement: Placement) -> Placement:
    """The placement with a warning where no node has the label of the preferred level."""
    request = placement.pod.topology
    if request is None or not request.preferred:
        return placement
    key, view = request.preferred, context.view
    if view.index.labels.is_there(key):
        return placement
    levels = levels_of(view, context.settings)
    text = f"no node has the label {key[:SHOWN_MAX]} of the preferred topology, so it is ignored"
    note = (ConditionReason.UNKNOWN_TOPOLOGY.value, f"{text}; {_known(levels)}")
    return msgspec.structs.replace(placement, notes=(*placement.notes, note))


def _known(levels: tuple[str, ...]) -> str:
    return f"levels of this cluster: {' '.join(levels)}" if levels else "this cluster has no level"


def _without(key: str) -> Reasons:
    text = f"node(s) without the label {key[:SHOWN_MAX]} of the required topology"
    return (Reason(code=NO_TOPOLOGY_LABEL, text=text, resolvable=False),)


PLUGIN: Final = Plugin(
    name="TopologyPlacement",
    reads=(pod_reads.TOPOLOGY,),
    codes=CODES,
    skips_plain=True,
    pre_filter=pre_filter,
    reserve=reserve,
)
