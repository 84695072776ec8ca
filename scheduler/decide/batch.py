"""Pods that are given together: as a whole whenever that is possible, else in their order.

One by one, each pod takes the place that is best for it, and the last one may find none although
all of them would have fitted. So where somebody is left over, places for all are looked for at
once (``decide/joint.first``); only where there are none the order decides, and what that cost
against the best packing of the same pods can be told.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler.decide import joint
from scheduler.decide.cutting import carved
from scheduler.decide.cycle import decide
from scheduler.decide.decision import Decision, Placement, Rejection
from scheduler.decide.filters import CLASS_FILTERS, first_rejection
from scheduler.decide.view import Overlay, Profile
from scheduler.model import mig
from scheduler.model.device import Devices, Spot
from scheduler.model.pod import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.cutting import Gpus

#: States that the search for the best packing may look at.
OPTIMUM_MAX = 50_000


class Packing(msgspec.Struct, frozen=True, kw_only=True):
    """A batch on some GPUs: the spot of each request (None: it waits), and memory slices in all.

    ``optimum`` is the most that any choice of these requests could fill; it is an upper bound
    where ``is_exact`` is False.
    """

    spots: tuple[Spot | None, ...]
    slices: int
    optimum: int
    is_exact: bool = True

    @property
    def is_whole(self) -> bool:
        """Whether every request has a place."""
        return None not in self.spots


def together(gpus: Gpus, profiles: Sequence[str]) -> tuple[Spot, ...] | None:
    """A spot for each of these requests, or None where they do not all fit."""
    asked = joint.rigid_first(gpus.board, profiles)
    steps = joint.first(gpus.board, gpus.signature, asked)
    if steps is None:
        return None
    waiting = list(joint.numbered(gpus, 0.0, steps).spots)
    found: list[Spot] = []
    for profile in profiles:
        spot = next(one for one in waiting if one.profile == profile)
        waiting.remove(spot)
        found.append(spot)
    return tuple(found)


def pack(gpus: Gpus, profiles: Sequence[str]) -> Packing:
    """The batch as a whole where that is possible, else one request after the other."""
    spots: tuple[Spot | None, ...] | None = together(gpus, profiles)
    if spots is None:
        spots = _in_order(gpus, profiles)
    slices = sum(_size(gpus.board, spot.profile) for spot in spots if spot is not None)
    if None not in spots:
        return Packing(spots=spots, slices=slices, optimum=slices)
    best = _optimum(gpus, profiles)
    asked = sum(_size(gpus.board, profile) for profile in profiles)
    bound = min(asked, gpus.free_slices)
    return Packing(
        spots=spots,
        slices=slices,
        optimum=bound if best is None else best,
        is_exact=best is not None,
    )


def decide_together(cluster: Cluster, pods: Sequence[Pod], profile: Profile) -> list[Decision]:
    """Decisions about pods of equal priority that are given at once, in the order of the queue."""
    overlay = Overlay(cluster)
    decisions: list[Decision] = []
    for pod in pods:
        decision = decide(overlay if decisions else cluster, pod, profile)
        decisions.append(decision)
        if isinstance(decision, Placement):
            overlay.place(pod, decision.node_name, decision.devices)
    if any(isinstance(decision, Rejection) for decision in decisions):
        return _as_a_whole(cluster, pods) or decisions
    return decisions


def _as_a_whole(cluster: Cluster, pods: Sequence[Pod]) -> list[Decision] | None:
    """Places for all of them, where each is one instance for a node that all of them may have."""
    wanted = [joint.wanted(pod) for pod in pods]
    if any(len(one) != 1 or pod.map_text for one, pod in zip(wanted, pods, strict=True)):
        return None
    nodes = [
        (books.node.name, books.gpus)
        for books in cluster.candidates()
        if books.node is not None
        and books.gpus is not None
        and not any(first_rejection(pod, books, CLASS_FILTERS) for pod in pods)
    ]
    for board in dict.fromkeys(gpus.board for _, gpus in nodes):
        pool = [(name, gpus) for name, gpus in nodes if gpus.board is board]
        found = _on_one_board(cluster, pods, [one[0] for one in wanted], pool)
        if found is not None:
            return found
    return None


def _on_one_board(
    cluster: Cluster, pods: Sequence[Pod], profiles: list[str], pool: list[tuple[str, Gpus]]
) -> list[Decision] | None:
    owners = [(name, gpu) for name, gpus in pool for gpu in range(len(gpus.held))]
    every = Gpus(
        pool[0][1].board,
        tuple(layout for _, gpus in pool for layout in gpus.held),
        tuple(idle for _, gpus in pool for idle in gpus.idle),
    )
    spots = together(every, profiles)
    if spots is None:
        return None
    overlay = Overlay(cluster)
    decisions: list[Decision] = []
    for pod, spot in zip(pods, spots, strict=True):
        name, gpu = owners[spot.gpu]
        books = overlay.at(name)
        assert books is not None
        if first_rejection(pod, books):
            return None  # something else than slices is short there
        devices = Devices(spots=(Spot(gpu, spot.start, spot.profile),))
        decisions.append(carved(Placement(pod=pod, node_name=name, devices=devices), books))
        overlay.place(pod, name, devices)
    return decisions


def _in_order(gpus: Gpus, profiles: Sequence[str]) -> tuple[Spot | None, ...]:
    held = list(gpus.held)
    found: list[Spot | None] = []
    for profile in profiles:
        one = joint.choose(Gpus(gpus.board, tuple(held), gpus.idle), (profile,))
        spot = one.spots[0] if one is not None else None
        if spot is not None:
            held[spot.gpu] = mig.with_slot(held[spot.gpu], profile, spot.start)
        found.append(spot)
    return tuple(found)


def _optimum(gpus: Gpus, profiles: Sequence[str]) -> int | None:
    """The most slices that a choice of the requests can fill; None where that is too much work."""
    board = gpus.board
    asked = joint.rigid_first(board, profiles)
    known: dict[object, int] = {}

    def most(layouts: tuple[mig.Layout, ...], at: int) -> int:
        if at == len(asked) or len(known) >= OPTIMUM_MAX:
            return 0
        state = (joint.room(board, layouts), at)
        if state not in known:
            size = _size(board, asked[at])
            ways = (joint.after(layouts, step) for step in joint.moves(board, layouts, asked[at]))
            with_it = max((size + most(rest, at + 1) for rest in ways), default=0)
            known[state] = max(with_it, most(layouts, at + 1))
        return known[state]

    best = most(gpus.signature, 0)
    return best if len(known) < OPTIMUM_MAX else None


def _size(board: mig.Board, profile: str) -> int:
    known = mig.profile_of(board, profile)
    return known.size if known is not None else 0
