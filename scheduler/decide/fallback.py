"""Which tier a new pod gets at admission (design 5.8 to 5.11).

*Free* is not a subtraction: the newcomer is decided like any pod, on the cluster with these
holders placed on top: promised pods, and pods that wait for exactly one tier, each only if
its priority is at least the newcomer's. What holds nothing today cannot degrade anybody.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from scheduler.decide import packed
from scheduler.decide.cycle import decide, place
from scheduler.decide.decision import Placement
from scheduler.decide.filters import first_rejection
from scheduler.decide.view import Overlay, Profile, stronger
from scheduler.model import names
from scheduler.model.ladder import OFF, Ladder
from scheduler.model.pod import Pod
from scheduler.model.reason import Diagnosis
from scheduler.model.swap import with_resources
from scheduler.model.ticket import is_for
from scheduler.state.cluster import Cluster
from scheduler.state.promise import Promise

COMBINATIONS_MAX = 64


class Tried(msgspec.Struct, frozen=True):
    """Profiles with which the newcomer did not fit, and why."""

    tiers: tuple[str, ...]
    diagnosis: Diagnosis


class Granted(msgspec.Struct, frozen=True):
    """A tier for the newcomer: ``pod`` as rewritten, ``changes`` as (from, to) resources."""

    pod: Pod
    changes: tuple[tuple[str, str], ...]
    placement: Placement
    tried: tuple[Tried, ...] = ()


class Refused(msgspec.Struct, frozen=True):
    """No tier has anything free; ``is_strict`` when the ladder ends in ``fail``."""

    tried: tuple[Tried, ...]
    is_strict: bool

    @property
    def tiers(self) -> tuple[str, ...]:
        """Every profile that was tried, once, in order."""
        return tuple(dict.fromkeys(tier for one in self.tried for tier in one.tiers))


def is_degradable(pod: Pod) -> bool:
    """Whether the pod takes part in fallback and promises at all (design 5.10)."""
    mig = any(names.is_mig(resource) for resource in pod.gpu_requests)
    owner = pod.owner.kind if pod.owner else ""
    return (
        mig
        and pod.map_text is None
        and not pod.gates
        and not pod.node_name
        and owner not in ("DaemonSet", "Node")
        and pod.annotations.get(names.PREFER) != "preempt"
    )


def choose_tier(
    cluster: Cluster,
    pod: Pod,
    ladders: Sequence[Ladder],
    promises: Iterable[Promise],
    waiting: Iterable[Iterable[Pod]],
    profile: Profile,
) -> Granted | Refused:
    """The first combination of tiers with which the pod fits beside all stronger holders.

    ``waiting`` are refused pods that lack exactly one resource, in groups that ask for the same.
    """
    held = _Held(Overlay(cluster), profile)
    held.overlay.hold(stronger(cluster.nominated, pod))
    own = [one for one in cluster.nominated.values() if is_for(one, pod)]
    held.overlay.hold(own)
    promised: set[str] = set()
    for promise in promises:
        promised.add(promise.pod.uid)
        if not _holds_already(cluster, promise.pod):
            held.keep(promise)
    held.place_groups(
        (one for one in group if one.uid not in promised and one.priority >= pod.priority)
        for group in waiting
    )
    for one in own:  # nobody who waits may have it, and now it is free for the newcomer
        held.overlay.lift(one)
    tried: list[Tried] = []
    for changes in _combinations(pod, ladders):
        candidate = with_resources(pod, dict(changes)) if changes else pod
        decision = decide(held.overlay, candidate, profile)
        if isinstance(decision, Placement):
            return Granted(candidate, changes, decision, tuple(tried))
        tiers = sorted(names.mig_profile(resource) for resource in candidate.gpu_requests)
        tried.append(Tried(tuple(tiers), decision.diagnosis))
    strict = any(_ladder_of(r, ladders).is_strict for r in pod.gpu_requests)
    return Refused(tuple(tried), strict)


def _holds_already(cluster: Cluster, pod: Pod) -> bool:
    """Whether what a promise is for is on the books, or held by the move that the pod is for."""
    if pod.uid in cluster.assumed or pod.uid in cluster.nominated:
        return True
    move = cluster.nominated.get(pod.annotations.get(names.MOVE, ""))
    return move is not None and move.gpu_requests == pod.gpu_requests


class _Held:
    """The cluster with all stronger holders placed on top, as far as they can be placed now.

    It only fills, so once one pod finds no place, its equals need not be tried.
    """

    def __init__(self, overlay: Overlay, profile: Profile) -> None:
        self.overlay = overlay
        self._profile = profile
        self._hopeless: set[object] = set()

    def keep(self, promise: Promise) -> None:
        """Place a promised pod where it was seen to fit, or wherever it fits now."""
        books = self.overlay.at(promise.node_name)
        if books is not None and not first_rejection(promise.pod, books):
            devices = packed.devices(promise.pod, books)
            self.overlay.place(promise.pod, promise.node_name, devices)
            return
        promise.node_name = self.place(promise.pod) or promise.node_name

    def place(self, pod: Pod) -> str | None:
        """Place a pod wherever it fits; the node's name, or None."""
        kind = _kind(pod)
        if kind in self._hopeless:
            return None
        placement = place(self.overlay, _schedulable(pod), self._profile)
        if placement is None:
            self._hopeless.add(kind)
            return None
        self.overlay.place(pod, placement.node_name, placement.devices)
        return placement.node_name

    def place_groups(self, groups: Iterable[Iterator[Pod]]) -> None:
        """Place pods, strongest and oldest first; the first one without a place ends its group."""
        heads: list[tuple[int, str, int, Pod, Iterator[Pod]]] = []
        for number, group in enumerate(groups):
            _push(heads, number, group)
        while heads:
            *_, number, pod, group = heapq.heappop(heads)
            if self.place(pod) is not None:
                _push(heads, number, group)


def _push(
    heads: list[tuple[int, str, int, Pod, Iterator[Pod]]], number: int, group: Iterator[Pod]
) -> None:
    pod = next(group, None)
    if pod is not None:
        heapq.heappush(heads, (-pod.priority, pod.created, number, pod, group))


def _schedulable(pod: Pod) -> Pod:
    # Another scheduler may well implement what we do not; only the devices matter here.
    return msgspec.structs.replace(pod, unsupported=()) if pod.unsupported else pod


def _kind(pod: Pod) -> object:
    return (
        pod.priority,
        tuple(sorted(pod.requests.items())),
        tuple(sorted(pod.node_selector.items())),
        pod.required_terms,
        pod.tolerations,
        pod.host_ports,
        pod.uid if pod.map_text is not None else "",
    )


def _ladder_of(resource: str, ladders: Sequence[Ladder]) -> Ladder:
    """The first ladder that has something to say about a resource."""
    speaking = (ladder for ladder in ladders if resource in ladder.tiers)
    return next((one for one in speaking if one.below(resource) or one.is_strict), OFF)


def _combinations(pod: Pod, ladders: Sequence[Ladder]) -> Iterator[tuple[tuple[str, str], ...]]:
    asked = [resource for resource in pod.gpu_requests if names.is_mig(resource)]
    options = [(resource, *_ladder_of(resource, ladders).below(resource)) for resource in asked]
    for tiers in itertools.islice(itertools.product(*options), COMBINATIONS_MAX):
        yield tuple((old, new) for old, new in zip(asked, tiers, strict=True) if old != new)
