"""Decides the members of a gang one by one on the nodes of a region."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from scheduler.decide.schedule_one import place
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Decision, Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.plugin import BoundFilter
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.plugins.topology.plugin import within

#: Decides one pod on a view, on these nodes only if they are given.
FindNode = Callable[[View, Pod, Pipeline, Budget, BoundFilter | None], Decision]


class RegionSearch:
    """The nodes of a region, and where the last member of each kind went.

    An equal member goes to the same node as long as it fits: best fit chose the fullest node, and
    it is fuller now. So most members cost a look at one node instead of at all of the region.
    """

    def __init__(self, nodes: frozenset[str]) -> None:
        self._only = within(nodes)
        self._last: dict[Hashable, str] = {}

    def decide(
        self,
        find: FindNode,
        view: View,
        pod: Pod,
        kind: Hashable | None,
        pipeline: Pipeline,
        work: Budget,
    ) -> Decision:
        """The decision about one member; ``kind`` is None for one that is like no other."""
        packs = kind is not None and not pipeline.spreads and not pipeline.is_balanced(pod)
        name = self._last.get(kind) if packs else None
        if name is not None:
            again = place(view, pod, pipeline, work, within(frozenset((name,))))
            if again is not None:
                return again
        decision = find(view, pod, pipeline, work, self._only)
        if isinstance(decision, Placement):
            self._last[kind] = decision.node_name
        return decision
