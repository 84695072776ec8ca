"""The cheapest migrations after which a pod's MIG instance fits: a plan with its cost.

The order is: fewest pods, because each of them is restarted; then fewest memory slices held by
them; then the first GPU by name. The pods in the window are placed again by the normal scheduling
decision, the largest first, with the window occupied. The plan is the first window where that
succeeds::

    GPU 3:  |   |2g     |   |   |   |1g |        3g.40gb waits. Slices 0 to 3 are held by one
    GPU 7:  |4g             |       |1g |   |    pod, the 2g: it goes to GPU 7, slice 4

Must never: be carried out automatically. The plan is a proposal; every migration is an eviction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import msgspec

from scheduler.decide.schedule_one import place
from scheduler.decide.view import WhatIfView
from scheduler.framework.pipeline import Pipeline, first_rejection
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.mig import layout as mig_layout
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch
from scheduler.plugins.dynamic_mig import instance_search
from scheduler.state.cache.cluster import Cluster
from scheduler.state.mig.dynamic_gpus import BLOCKED
from scheduler.state.node_info import NodeInfo

#: Maximum number of windows that one plan tries; the others contain more or larger pods.
WINDOWS_MAX: Final = 4096


class Relocation(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that is restarted elsewhere. ``gpu_minutes`` is the GPU time since its creation,
    weighted with its share of a GPU; without a checkpoint all of it is lost.
    """

    pod: Pod
    source: MigPlacement
    node_name: str
    devices: Devices
    gpu_minutes: float = 0.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The migrations, in order, and the placement of the pod afterwards."""

    pod: Pod
    node_name: str
    mig_placement: MigPlacement
    moves: tuple[Relocation, ...]

    @property
    def restarts(self) -> int:
        """The number of pods that are restarted."""
        return len(self.moves)

    @property
    def gpu_minutes(self) -> float:
        """The upper bound of lost GPU-minutes."""
        return sum(move.gpu_minutes for move in self.moves)


class _Window(msgspec.Struct, frozen=True, gc=False):
    """Slices of a GPU in which the instance would fit, the pods in them, and the pods among those
    that fit nowhere else on the same GPU.
    """

    start: int
    slices: int
    inside: mig_layout.Layout
    outbound: tuple[str, ...]


_Candidate = tuple[int, int, int, str, int, _Window]


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
    attempt = _Attempt(cluster, pod, pipeline, wanted[0], may_move, now)
    for *_, node_name, gpu, window in _candidates(cluster, wanted[0], moves_max):
        moves = attempt.moves(node_name, gpu, window)
        if moves is not None:
            mig_placement = MigPlacement(gpu, window.start, wanted[0])
            return Plan(pod=pod, node_name=node_name, mig_placement=mig_placement, moves=moves)
    return None


def _candidates(cluster: Cluster, wanted: str, moves_max: int) -> list[_Candidate]:
    """Every window with few enough pods in it, the cheapest first."""
    found: list[_Candidate] = []
    free = size = 0
    dynamic = [(b.node.name, b.gpus) for b in cluster.candidates() if b.node and b.gpus]
    for name, gpus in sorted(dynamic, key=lambda one: one[0]):
        free, size = free + gpus.free_slices, max(size, _size(gpus.gpu_model, wanted))
        for gpu, layout in enumerate(gpus.held):
            found += (
                (len(window.inside), window.slices, len(found), name, gpu, window)
                for window in _windows(gpus.gpu_model, layout, wanted)
                if len(window.inside) <= moves_max
            )
    if free < size:
        return []
    return sorted(found, key=lambda one: one[:3])[:WINDOWS_MAX]


@lru_cache(maxsize=65536)
def _windows(
    gpu_model: mig_layout.GpuModel, layout: mig_layout.Layout, wanted: str
) -> tuple[_Window, ...]:
    known = mig_layout.profile_of(gpu_model, wanted)
    if known is None or layout == BLOCKED:
        return ()
    found: list[_Window] = []
    for start in known.starts:
        window = known.kind.mask(start)
        inside = tuple(slot for slot in layout if mig_layout.occupancy(gpu_model, (slot,)) & window)
        rest = tuple(slot for slot in layout if slot not in inside)
        beside = mig_layout.with_slot(rest, wanted, start)
        outbound = tuple(name for name, _ in inside if not mig_layout.fits(gpu_model, beside, name))
        slices = mig_layout.occupancy(gpu_model, inside).bit_count()
        if mig_layout.is_legal(gpu_model, beside):
            found.append(_Window(start, slices, inside, outbound))
    return tuple(found)


class _Attempt:
    """Tries windows for one pod; caches the profiles that fit nowhere else."""

    def __init__(
        self,
        cluster: Cluster,
        pod: Pod,
        pipeline: Pipeline,
        wanted: str,
        may_move: Callable[[Pod], bool],
        now: float,
    ) -> None:
        self._cluster = cluster
        self._pod = pod
        self._pipeline = pipeline
        self._wanted = wanted
        self._may_move = may_move
        self._now = now
        self._has_room: dict[str, bool] = {}

    def moves(self, node_name: str, gpu: int, window: _Window) -> tuple[Relocation, ...] | None:
        """New placements of the pods in the window, or None if one of them has none."""
        if not all(self._goes_elsewhere(profile) for profile in window.outbound):
            return None
        node_info = self._cluster.at(node_name)
        assert node_info is not None
        leaving = list(_holders(node_info, gpu, window))
        is_known = len(leaving) == len(window.inside)
        if not is_known or not all(self._may_move(holder) for holder, _ in leaving):
            return None
        overlay = WhatIfView(self._cluster)
        tried = overlay.changed[node_name] = node_info.copy()
        for holder, _ in leaving:
            tried.remove(holder.uid)
        if first_rejection(self._pod, tried, self._pipeline.points(self._pod).filters):
            return None
        mig_placement = MigPlacement(gpu, window.start, self._wanted)
        overlay.place(self._pod, node_name, Devices(mig_placements=(mig_placement,)))
        assert tried.gpus is not None, "a window of a node without dynamic MIG"
        return self._placed_again(overlay, tried.gpus.gpu_model, leaving)

    def _goes_elsewhere(self, profile: str) -> bool:
        known = self._has_room.get(profile)
        if known is None:
            known = self._has_room[profile] = bool(self._cluster.index.mig_layouts.ranked(profile))
        return known

    def _placed_again(
        self,
        overlay: WhatIfView,
        gpu_model: mig_layout.GpuModel,
        leaving: list[tuple[Pod, MigPlacement]],
    ) -> tuple[Relocation, ...] | None:
        moves: list[Relocation] = []
        for pod, mig_placement in sorted(
            leaving, key=lambda one: (-_size(gpu_model, one[1].profile), one[1])
        ):
            found = place(overlay, pod, self._pipeline)
            if found is None:
                return None
            overlay.place(pod, found.node_name, found.devices)
            lost = _gpu_minutes(gpu_model, pod, mig_placement, self._now)
            moves.append(
                Relocation(
                    pod=pod,
                    source=mig_placement,
                    node_name=found.node_name,
                    devices=found.devices,
                    gpu_minutes=lost,
                )
            )
        return tuple(moves)


def _holders(node_info: NodeInfo, gpu: int, window: _Window) -> Iterator[tuple[Pod, MigPlacement]]:
    """The pods in the window; a pod with several instances is not moved."""
    slots = set(window.inside)
    for pod, allocation in node_info.pods.values():
        mine = [
            s for s in allocation.mig_placements if s.gpu == gpu and (s.profile, s.start) in slots
        ]
        if mine and len(allocation.mig_placements) == 1:
            yield pod, mine[0]


def _size(gpu_model: mig_layout.GpuModel, name: str) -> int:
    profile = mig_layout.profile_of(gpu_model, name)
    return profile.size if profile else 0


def _gpu_minutes(
    gpu_model: mig_layout.GpuModel, pod: Pod, mig_placement: MigPlacement, now: float
) -> float:
    profile = mig_layout.profile_of(gpu_model, mig_placement.profile)
    since = epoch(pod.created)
    if profile is None or since is None:
        return 0.0
    return max(0.0, now - since) / 60 * profile.compute / gpu_model.compute_slices
