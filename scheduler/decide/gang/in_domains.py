"""Plans a gang that requests a level of the topology: in the tightest domain that holds it.

Candidates come from ``decide/topology/choice`` by counts; the plan of the members in one of them
decides. A gang that is placed already is never moved for a better domain.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import groupby, islice
from typing import Final

import msgspec

from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.decide.gang.gang_plan import GangPlan
from scheduler.decide.gang.no_domain import why_no_domain
from scheduler.decide.gang.rank import Place, largest_first
from scheduler.decide.gang.region_search import RegionSearch
from scheduler.decide.schedule_one import pre_filter
from scheduler.decide.topology.choice import Choice, Region, Scope
from scheduler.decide.topology.rooms import Rooms, Shape
from scheduler.framework.budget import Budget
from scheduler.framework.decision import Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.plugin import Refuse
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis, Reason
from scheduler.plugins.topology.plugin import levels_of
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.gang import Gang
from scheduler.state.topology.domain_paths import ROOT

#: So many candidates are tried.
PLANS_MAX: Final = 8
#: So many places are compared with those in other domains: of large groups fewer domains.
COMPARED_MAX: Final = 256
#: So many kinds of members are counted; of the others it is not known where they fit.
SHAPES_MAX: Final = 8


#: Plans the gang on some nodes only, or on all.
Plan = Callable[[RegionSearch | None], GangPlan | Rejection]


class InDomains:
    """The plans of one gang; ``view`` has the room that it may use."""

    def __init__(
        self,
        cluster: Cluster,
        view: View,
        gang: Gang,
        waiting: Sequence[Pod],
        pipeline: Pipeline,
        work: Budget,
    ) -> None:
        assert gang.topology is not None
        self._view = view
        self._gang = gang
        self._waiting = waiting
        self._pipeline = pipeline
        self._work = work
        self._levels = levels_of(cluster, pipeline)
        self._scope = Scope.of(gang.topology, self._levels)
        self._paths = cluster.topology.paths(self._scope.keys)
        placed = [(cluster.pods[uid].node_name, uid) for uid in gang.placed]
        used = [name or cluster.assumed[uid].node_name for name, uid in placed]
        self._choice = Choice(self._scope, self._paths, self.rooms(view), used)

    def place_of(self, node_name: str) -> Place:
        """The order of nodes: neighbours in the topology follow each other."""
        return tuple((value is None, value or "") for value in self._paths.path_of(node_name))

    def best(self, plan: Plan) -> GangPlan | Rejection:
        """The plan in the best domain that holds the gang, or why there is none."""
        need = self._gang.need
        assert need is not None
        partly: GangPlan | None = None
        refused: Rejection | None = None
        for want, region in islice(self._candidates(need), PLANS_MAX):
            if partly is not None and want == need:
                return partly
            found = plan(RegionSearch(region.nodes))
            if isinstance(found, Rejection):
                refused = refused or found
            elif len(found.placements) >= want:
                return found
            elif partly is None or len(found.placements) > len(partly.placements):
                partly = found
        if partly is not None:
            return partly
        return self._rejection(need, refused, plan) if self._scope.far else plan(None)

    def nearest(self, plan: Plan, room_now: Rooms) -> Iterator[GangPlan]:
        """Plans of the minimum in several of the nearest domains that hold it; first where most
        members have room by ``room_now``, which knows of more pods than the view.
        """
        need, tries, compared = self._gang.need, PLANS_MAX, 0
        assert need is not None
        for _, equal in groupby(self._choice.regions(need), lambda one: one.distance):
            ordered = sorted(equal, key=lambda one: -room_now.holds(room_now.total(one.domains)))
            for region in ordered[:tries]:
                tries -= 1
                found = plan(RegionSearch(region.nodes))
                if isinstance(found, GangPlan):
                    yield found
                    compared += need
                    if compared + need > COMPARED_MAX:
                        return
            if compared or not tries:
                return
        if not self._scope.far:
            anywhere = plan(None)
            if isinstance(anywhere, GangPlan):
                yield anywhere

    def _candidates(self, need: int) -> Iterator[tuple[int, Region]]:
        """Regions for all members, then for those that have to be placed together."""
        for want in dict.fromkeys((len(self._waiting), need)):
            for region in self._choice.regions(want):
                yield want, region

    def rooms(self, view: View) -> Rooms:
        """The room that the members have on a view."""
        alike: dict[Hashable, list[Pod]] = {}
        for pod in largest_first(self._waiting):
            alike.setdefault(self._pipeline.equivalence_class(pod), []).append(pod)
        shapes: list[Shape] = []
        uncounted = 0
        for pods in alike.values():
            shape = self._shape(view, pods) if len(shapes) < SHAPES_MAX else None
            if shape is None:
                uncounted += len(pods)
            else:
                shapes.append(shape)
        return Rooms(self._paths, shapes, uncounted)

    def _shape(self, view: View, pods: Sequence[Pod]) -> Shape | None:
        """The room for equal members; None where maps name their nodes."""
        if any(pod.map_text is not None for pod in pods):
            return None
        view, filtered = pre_filter(view, pods[0], self._pipeline)
        if isinstance(filtered, Refuse):
            return Shape(len(pods), {})
        own = Budget(self._work.limit)
        nodes = FeasibleNodes(view, pods[0], self._pipeline, own, filtered.bound)
        shape = Shape.of(len(pods), nodes)
        self._work.spend(own.spent)
        return shape

    def _rejection(self, need: int, refused: Rejection | None, plan: Plan) -> Rejection:
        """Why no domain of the required level takes the gang."""
        rooms, domains = self._choice.rooms, self._choice.far_domains()
        reason = why_no_domain(self._gang, self._choice, domains, self._levels)
        if domains and refused is None and rooms.holds(rooms.of(ROOT)) < need:
            found = plan(None)  # there is too little room everywhere
            if isinstance(found, Rejection):
                return _beside(found, reason) if self._choice.pinned else found
        if refused is not None:  # enough by count, and yet not all of them fit
            return _beside(refused, reason)
        diagnosis = Diagnosis(total=len(self._view.nodes), general=reason)
        return Rejection(pod=self._waiting[0], diagnosis=diagnosis)


def _beside(rejection: Rejection, reason: Reason) -> Rejection:
    """The rejection of a plan, with what is said of the domains."""
    before = rejection.diagnosis.post_filter
    bare = msgspec.structs.replace(rejection.diagnosis, post_filter="")
    diagnosis = bare.with_post_filter(f"{before} {reason.text}.".lstrip())
    return msgspec.structs.replace(rejection, diagnosis=diagnosis)
