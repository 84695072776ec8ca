"""What plugins do for one pod, by extension point of the scheduling framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from scheduler.framework.plugin import (
    Check,
    ClassFilter,
    DataNodes,
    FindData,
    NodeFilter,
    Plugin,
    PreBind,
    PreFilter,
    QueueingHint,
    Reserve,
    TieBreak,
)
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.state.node_info import NodeInfo

#: What decides between nodes that are equal otherwise, for one pod.
TieScore = Callable[[NodeInfo], int]


class ExtensionPoints(msgspec.Struct, frozen=True, kw_only=True):
    """The functions of some plugins about one pod at each extension point, in their order.

    ``class_filters`` have one answer per node class, ``node_filters`` read the NodeInfo;
    ``filters`` are both.
    """

    pre_filters: tuple[PreFilter, ...]
    class_filters: tuple[Check, ...]
    node_filters: tuple[Check, ...]
    filters: tuple[Check, ...]
    tie_breaks: tuple[TieBreak, ...]
    data_finders: tuple[FindData, ...]
    reserves: tuple[Reserve, ...]
    pre_binds: tuple[PreBind, ...]
    queueing_hints: tuple[QueueingHint, ...]

    @staticmethod
    def of(plugins: Sequence[Plugin]) -> ExtensionPoints:
        """Those of these plugins."""
        every = [one for plugin in plugins for one in plugin.filters]
        class_filters = tuple(one.check for one in every if isinstance(one, ClassFilter))
        node_filters = tuple(one.check for one in every if isinstance(one, NodeFilter))
        return ExtensionPoints(
            pre_filters=tuple(one.pre_filter for one in plugins if one.pre_filter is not None),
            class_filters=class_filters,
            node_filters=node_filters,
            filters=class_filters + node_filters,
            tie_breaks=tuple(one.tie_break for one in plugins if one.tie_break is not None),
            data_finders=tuple(one.data_nodes for one in plugins if one.data_nodes is not None),
            reserves=tuple(one.reserve for one in plugins if one.reserve is not None),
            pre_binds=tuple(one.pre_bind for one in plugins if one.pre_bind is not None),
            queueing_hints=tuple(
                one.queueing_hint for one in plugins if one.queueing_hint is not None
            ),
        )

    def tie_score(self, view: View, pod: Pod) -> TieScore | None:
        """What decides between nodes that are equal otherwise; None if nothing does."""
        if not pod.gpu_requests:
            return None
        found: list[TieScore] = []
        for one in self.tie_breaks:
            if (score := one(view, pod)) is not None:
                found.append(score)  # noqa: PERF401 - nearly always none
        if not found:
            return None

        def total(node_info: NodeInfo) -> int:
            # MIG instances are searched for by layout, which says nothing about single nodes.
            return 0 if node_info.is_dynamic else sum(score(node_info) for score in found)

        return total

    def data_nodes(self, view: View, pod: Pod) -> DataNodes | None:
        """Where the pod has data, by all plugins."""
        if not self.data_finders:
            return None
        every = [one(view, pod) for one in self.data_finders]
        found = [one for one in every if one is not None]
        if len(found) < 2:
            return found[0] if found else None
        names = frozenset[str]().union(*(one.names for one in found))
        return DataNodes(lambda node_info: sum(one.score(node_info) for one in found), names)
