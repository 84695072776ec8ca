"""A pod whose group has to stay within one domain of a level: the nodes that this leaves.

The first pod of a group may use every node with the label, the others the domain where it is.
``decide/topology`` chooses the domain, for the whole group where it is a gang.
"""

from __future__ import annotations

from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, BoundFilter, Plugin, Reasons, Refuse
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
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
    if not any(path[-1] is not None for path in paths.nodes_of if len(path) == len(paths.keys)):
        return Refuse(unknown_level(key, levels))

    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        return FITS if key in node_info.node.labels else _without(key)

    return BoundFilter(check)


def unknown_level(key: str, levels: tuple[str, ...]) -> Reason:
    """No node has the label of a required level."""
    known = f"levels of this cluster: {' '.join(levels)}" if levels else "this cluster has no level"
    text = f"no node has the label {key[:SHOWN_MAX]} of the required topology; {known}"
    return Reason(code=UNKNOWN_LEVEL, text=text, resolvable=False)


def _without(key: str) -> Reasons:
    text = f"node(s) without the label {key[:SHOWN_MAX]} of the required topology"
    return (Reason(code=NO_TOPOLOGY_LABEL, text=text, resolvable=False),)


PLUGIN: Final = Plugin(
    name="TopologyPlacement",
    reads=(pod_reads.TOPOLOGY,),
    codes=CODES,
    skips_plain=True,
    pre_filter=pre_filter,
)
