"""The functions of some plugins at each extension point, composed once."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler.framework.plugin import (
    Check,
    ClassFilter,
    FindData,
    NodeFilter,
    Plugin,
    PreBind,
    PreFilter,
    QueueingHint,
    Reserve,
    TieBreak,
)


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
    data_nodes: tuple[FindData, ...]
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
            data_nodes=tuple(one.data_nodes for one in plugins if one.data_nodes is not None),
            reserves=tuple(one.reserve for one in plugins if one.reserve is not None),
            pre_binds=tuple(one.pre_bind for one in plugins if one.pre_bind is not None),
            queueing_hints=tuple(
                one.queueing_hint for one in plugins if one.queueing_hint is not None
            ),
        )
