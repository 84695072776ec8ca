"""The cheapest migrations after which a pod's MIG instance fits: a plan with its cost.

The order is: fewest pods, because each of them is restarted; then the least growth of the layout
cost, which is the room that later requests lose (``window_search``); then the first GPU by name.
The pods are placed by the normal scheduling decision.

No capacity is held for a plan. So a plan is **certain** only if it works although the waiting pod
is decided last, and if each replacement gets the same place before the old pod has ended (a
ReplicaSet creates it then) and afterwards (a StatefulSet). A certain plan that stops after any of
its moves leaves every moved pod running. Without a certain plan the result is one that needs the
waiting pod to be decided before the replacements.

Must never: be carried out automatically. The plan is a proposal; every migration is an eviction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

import msgspec

from scheduler.decide.migration.defrag_plan import Plan, Relocation
from scheduler.decide.migration.window_search import DIGITS, Candidate, Gpu, Window, WindowSearch
from scheduler.decide.schedule_one import place
from scheduler.decide.view import WhatIfView, stronger
from scheduler.framework.decision import Placement
from scheduler.framework.pipeline import Pipeline
from scheduler.model.gpu.device import MigPlacement
from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost import cost
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.cache.cluster import Cluster
from scheduler.state.gangs.victims import ending_with
from scheduler.state.mig.dynamic_gpus import DynamicGpus

#: Candidates of one kind that are tried: they differ in their nodes and pods only.
TRIES_OF_A_KIND_MAX: Final = 8
#: Candidates of one number of moves that are tried; each takes a few decisions.
TRIES_MAX: Final = 256


class _Leaving(msgspec.Struct, frozen=True, gc=False):
    """A pod in a window."""

    pod: Pod
    gpu: Gpu
    source: MigPlacement


def plan(
    cluster: Cluster,
    pod: Pod,
    pipeline: Pipeline,
    *,
    moves_max: int = 1,
    may_move: Callable[[Pod], bool] = lambda pod: True,
    now: float = 0.0,
) -> Plan | None:
    """The cheapest plan with at most ``moves_max`` restarts for a pod with one MIG instance.

    None if there is no plan, or if the pod requests several instances; a plan without migrations if
    it fits already. ``now`` is in seconds since 1970.
    """
    wanted = instance_search.wanted(pod)
    if len(wanted) != 1:
        return None
    fitting = place(cluster, pod, pipeline)
    if fitting is not None and fitting.devices.mig_placements:
        return _plan_of(cluster, WhatIfView(cluster), fitting, [], is_certain=True)
    search = WindowSearch(_gpus(cluster))
    if not search.has_slices(wanted[0]):
        return None
    attempt = _Attempt(cluster, pod, pipeline, may_move, now)
    by_moves = [search.candidates(wanted[0], moves) for moves in range(1, moves_max + 1)]
    for carried_out in (attempt.in_any_order, attempt.waiting_pod_first):
        for candidates in by_moves:
            tried = map(carried_out, islice(_tried(candidates), TRIES_MAX))
            found = next((one for one in tried if one is not None), None)
            if found is not None:
                return found
    return None


def _gpus(cluster: Cluster) -> list[Gpu]:
    """The dynamic MIG GPUs, by the names of their nodes."""
    dynamic = ((one.node.name, one.gpus) for one in cluster.candidates() if one.node and one.gpus)
    return [
        Gpu(name, index, gpus.gpu_model, layout)
        for name, gpus in sorted(dynamic, key=lambda one: one[0])
        for index, layout in enumerate(gpus.held)
    ]


def _tried(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Those that are tried, in order: not every one of a kind."""
    kinds: Counter[object] = Counter()
    for candidate in candidates:
        kinds[candidate.kind] += 1
        if kinds[candidate.kind] <= TRIES_OF_A_KIND_MAX:
            yield candidate


class _Attempt:
    """Carries candidates out on views of the cluster."""

    def __init__(
        self,
        cluster: Cluster,
        pod: Pod,
        pipeline: Pipeline,
        may_move: Callable[[Pod], bool],
        now: float,
    ) -> None:
        self._cluster = cluster
        self._pod = pod
        self._pipeline = pipeline
        self._may_move = may_move
        self._now = now

    def in_any_order(self, candidate: Candidate) -> Plan | None:
        """The certain plan of a candidate, or None."""
        leaving = self._leaving(candidate)
        plan = self._certain(leaving) if leaving else None
        if plan is None and len(leaving) > len(candidate.windows):
            plan = self._certain(leaving[::-1])  # several pods of one window
        return plan

    def waiting_pod_first(self, candidate: Candidate) -> Plan | None:
        """The plan if the waiting pod is decided before the replacements, or None."""
        leaving = self._leaving(candidate)
        view = self._view()
        for one in leaving:
            view.remove(one.pod.uid, one.gpu.node_name)
        placed = self._place(view, self._pod) if leaving else None
        if placed is None:
            return None
        view.place(self._pod, placed.node_name, placed.devices)
        moves: dict[str, Relocation] = {}
        for one in sorted(leaving, key=lambda one: -_profile(one).size):
            found = self._place(view, one.pod)
            if found is None:
                return None
            view.place(one.pod, found.node_name, found.devices)
            moves[one.pod.uid] = self._relocation(one, found)
        in_order = [moves[one.pod.uid] for one in leaving]
        return _plan_of(self._cluster, view, placed, in_order, is_certain=False)

    def _leaving(self, candidate: Candidate) -> list[_Leaving]:
        """The pods to move, in order; none if one of them is unknown or has to stay, or if a gang
        would not be whole without them.
        """
        leaving: list[_Leaving] = []
        for window in candidate.windows:
            found = self._pods_in(window)
            if len(found) < len(window.shape.inside):
                return []
            leaving += found
        moved = [one.pod for one in leaving]
        return [] if ending_with(self._cluster.gangs, moved) else leaving

    def _pods_in(self, window: Window) -> list[_Leaving]:
        """The pods in a window that may move, the smallest first; one with several instances may
        not.
        """
        gpu = window.gpu
        node_info = self._cluster.at(gpu.node_name)
        assert node_info is not None, "a window of a node that does not exist"
        found: list[_Leaving] = []
        for pod, allocation in node_info.pods.values():
            mine = [s for s in allocation.mig_placements if window.is_held_by(s)]
            if mine and len(allocation.mig_placements) == 1 and self._may_move(pod):
                found.append(_Leaving(pod, gpu, mine[0]))
        return sorted(found, key=lambda one: (_profile(one).size, one.source))

    def _certain(self, leaving: list[_Leaving]) -> Plan | None:
        """The plan if each pod has the same place before and after its predecessor has ended."""
        view, moves = self._view(), list[Relocation]()
        for one in leaving:
            early = self._place(view, one.pod)
            if early is None:
                return None
            view.remove(one.pod.uid, one.gpu.node_name)
            found = self._place(view, one.pod)
            if found is None or not _is_same(early, found):
                return None
            view.place(one.pod, found.node_name, found.devices)
            moves.append(self._relocation(one, found))
        placed = self._place(view, self._pod)
        if placed is None:
            return None
        view.place(self._pod, placed.node_name, placed.devices)
        return _plan_of(self._cluster, view, placed, moves, is_certain=True)

    def _view(self) -> WhatIfView:
        """The cluster with the pods that are nominated beside the waiting pod."""
        view = WhatIfView(self._cluster)
        view.hold(stronger(self._cluster.nominations, self._pod))
        return view

    def _place(self, view: WhatIfView, pod: Pod) -> Placement | None:
        found = place(view, pod, self._pipeline)
        return found if found is not None and len(found.devices.mig_placements) == 1 else None

    def _relocation(self, one: _Leaving, found: Placement) -> Relocation:
        return Relocation(
            pod=one.pod,
            source=one.source,
            node_name=found.node_name,
            devices=found.devices,
            gpu_minutes=_gpu_minutes(one, self._now),
        )


def _is_same(one: Placement, other: Placement) -> bool:
    return (one.node_name, one.devices) == (other.node_name, other.devices)


def _plan_of(
    cluster: Cluster,
    view: WhatIfView,
    placed: Placement,
    moves: list[Relocation],
    *,
    is_certain: bool,
) -> Plan:
    """The plan whose result the view shows."""
    gain = 0.0
    for name, after in view.changed.items():
        before = cluster.at(name)
        if before is not None and before.gpus is not None and after.gpus is not None:
            gain += _cost(before.gpus) - _cost(after.gpus)
    return Plan(
        pod=placed.pod,
        node_name=placed.node_name,
        mig_placement=placed.devices.mig_placements[0],
        moves=tuple(moves),
        gain=round(gain, DIGITS),
        is_certain=is_certain,
    )


def _cost(gpus: DynamicGpus) -> float:
    return sum(cost(gpus.gpu_model, layout) for layout in gpus.held)


def _profile(one: _Leaving) -> mig_layout.Profile:
    profile = mig_layout.profile_of(one.gpu.gpu_model, one.source.profile)
    assert profile is not None, "a slot of a window has a profile of the GPU"
    return profile


def _gpu_minutes(one: _Leaving, now: float) -> float:
    since = epoch(one.pod.created)
    if since is None:
        return 0.0
    share = _profile(one).compute / one.gpu.gpu_model.compute_slices
    return max(0.0, now - since) / 60 * share
