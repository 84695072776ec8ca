"""The fallback settings of a pod: its own annotations, else its namespace's, else the
configuration.

A pod with an invalid annotation is rejected with a message. An invalid annotation of a namespace
causes a warning, and its pods keep their requests. All members of a gang have one tier (design
5.10).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu import gpu_memory
from scheduler.model.gpu.gpu_memory import GpuMemoryError
from scheduler.model.mig.fallback_ladder import Ladder, LadderError, parse_ladder
from scheduler.model.pods.injected_containers import IntendedContainer, intended_container
from scheduler.model.pods.original_request import memory_given, with_original_request
from scheduler.model.pods.pod import Pod, Role
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reservations import Reservation

#: The key of a memory request, where other requests have the resource as key.
MEMORY = ""
#: Maximum length and number of names in a warning.
_NAME_SHOWN_MAX: Final = 63
_NAMES_SHOWN_MAX: Final = 4


class FallbackPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The fallback settings of a pod: from the pod, its namespace and the configuration.

    ``floor`` and ``memory`` (by container) are bytes; ``avoided_tiers`` are resources on which
    similar pods crashed; ``group_tiers`` are the tiers of the pod's group by request ("" for a
    memory request).
    """

    ladders: Sequence[Ladder] = ()
    floor: int = 0
    memory: dict[str, int] = {}
    avoided_tiers: frozenset[str] = frozenset()
    group_tiers: dict[str, frozenset[str]] = {}

    def ladder(self, resource: str) -> Ladder | None:
        """The first ladder that contains a resource."""
        matching = (one for one in self.ladders if one.mentions(resource))
        return next((one for one in matching if one.below(resource) or one.is_strict), None)

    def is_strict(self, pod: Pod) -> bool:
        """Whether the pod is rejected rather than left pending."""
        found = (self.ladder(resource) for resource in pod.gpu_requests)
        return any(ladder is not None and ladder.is_strict for ladder in found)


class PolicyError(ValueError):
    """An annotation about the pod's tier is invalid; the message is one line for the pod's
    author.
    """


def policy_of(
    cluster: Cluster,
    pod: Pod,
    configured: Sequence[Ladder],
    reservations: Iterable[Reservation],
    avoided_tiers: frozenset[str],
) -> tuple[FallbackPolicy, tuple[str, ...]]:
    """The settings for a pod as created, and warnings; TermsError if the pod must be rejected."""
    try:
        ladders, warnings = _ladders(cluster, pod, configured)
        has_floor = well_known.MEMORY_FLOOR in pod.annotations
        floor = gpu_memory.floor_of(pod.annotations) if has_floor else 0
        memory, warning = _memory(pod)
    except LadderError as error:
        raise PolicyError(f"{well_known.MIG_FALLBACK}: {error}") from error
    except GpuMemoryError as error:
        raise PolicyError(str(error)) from error
    if has_floor:
        _check_floor(pod, floor)
    policy = FallbackPolicy(
        ladders=ladders,
        floor=floor,
        memory=memory,
        avoided_tiers=avoided_tiers,
        group_tiers=_group_tiers(cluster, pod, reservations) if pod.group else {},
    )
    return policy, warnings + warning


def _ladders(
    cluster: Cluster, pod: Pod, configured: Sequence[Ladder]
) -> tuple[Sequence[Ladder], tuple[str, ...]]:
    text = pod.annotations.get(well_known.MIG_FALLBACK)
    if text is not None:
        return (parse_ladder(text),), ()
    # part of a gang on another tier is useless, so only the pod's author can enable it
    if pod.group:
        return (), ()
    text = cluster.namespace(pod.namespace).annotations.get(well_known.MIG_FALLBACK)
    if text is None:
        return configured, ()
    try:
        return (parse_ladder(text),), ()
    except LadderError as error:
        return (), (f"namespace {pod.namespace}, {well_known.MIG_FALLBACK}: {error}",)


def _memory(pod: Pod) -> tuple[dict[str, int], tuple[str, ...]]:
    """The memory request of each container, and a warning if the container was chosen by
    default.
    """
    if well_known.WANTED_MEMORY not in pod.annotations:
        return {}, ()
    regular = [one.name for one in pod.containers if one.role is Role.APP]
    others = [one.name for one in pod.containers if one.role is not Role.APP]
    found = intended_container(regular, pod.annotations, others)
    rest = [name for name in regular + others if name != found.container]
    wanted = gpu_memory.wanted_of(pod.annotations, [found.container, *rest])
    problem = _memory_conflict(pod)
    if problem is not None:
        raise PolicyError(f"{well_known.WANTED_MEMORY}: {problem}")
    is_guessed = found.guessed_from and not gpu_memory.names_all(pod.annotations)
    return wanted, (_default_container_warning(pod, found),) if is_guessed else ()


def _default_container_warning(pod: Pod, found: IntendedContainer) -> str:
    shown = [name[:_NAME_SHOWN_MAX] for name in found.guessed_from[:_NAMES_SHOWN_MAX]]
    more = len(found.guessed_from) - len(shown)
    among = ", ".join([*shown, f"{more} more"] if more else shown)
    amount = pod.annotations[well_known.WANTED_MEMORY].strip()[:_NAME_SHOWN_MAX]
    return (
        f"{well_known.WANTED_MEMORY}: no container is named, so {shown[0]} gets the GPU as the"
        f" first of {among}; write {shown[0]}={amount}, or set {well_known.DEFAULT_CONTAINER}"
    )


def _memory_conflict(pod: Pod) -> str | None:
    requested = sorted({device for one in pod.containers for device in one.devices})
    if requested:
        return f"the pod also requests {' and '.join(requested)}; keep one of the two"
    if pod.map_text is not None:
        return f"the pod also has a {well_known.MAP}, which names its GPUs; keep one of the two"
    if pod.node_name:
        return (
            f"the pod has a node already ({pod.node_name}), so the scheduler cannot choose a"
            " GPU for it; request a resource of that node"
        )
    return None


def _check_floor(pod: Pod, floor: int) -> None:
    for resource in pod.gpu_requests:
        if well_known.is_mig(resource) and not gpu_memory.has(resource, floor):
            text = pod.annotations[well_known.MEMORY_FLOOR].strip()
            raise PolicyError(
                f"{well_known.MEMORY_FLOOR}: {text} is more than the"
                f" {well_known.mig_profile(resource)} that the pod requests; request more, or"
                " lower the floor"
            )


def _group_tiers(
    cluster: Cluster, pod: Pod, reservations: Iterable[Reservation]
) -> dict[str, frozenset[str]]:
    """The tiers of the members that were admitted before the pod, by request."""
    found: dict[str, set[str]] = {}
    for member in cluster.groups.members(pod):
        for asked, given in _tiers_of_member(member):
            found.setdefault(asked, set()).add(given)
    for reservation in reservations:
        member = reservation.pod
        if reservation.is_matched or (member.namespace, member.group) != (pod.namespace, pod.group):
            continue
        for asked, given in _tiers_of_reservation(reservation):
            found.setdefault(asked, set()).add(given)
    return {asked: frozenset(given) for asked, given in found.items()}


def _tiers_of_reservation(reservation: Reservation) -> Iterator[tuple[str, str]]:
    yield from ((one.source, one.target) for one in reservation.rewrites)
    changed = {one.target for one in reservation.rewrites}
    yield from ((resource, resource) for resource in reservation.pod.gpu_requests.keys() - changed)


def _tiers_of_member(member: Pod) -> Iterator[tuple[str, str]]:
    yield from ((MEMORY, device) for device in memory_given(member).values())
    before = (with_original_request(member) or member).gpu_requests
    now = member.gpu_requests
    for asked in before:
        if asked in now:
            yield asked, asked
        else:
            yield from ((asked, given) for given in now.keys() - before.keys())
