"""The fallback settings of a pod: its own annotations, else its namespace's, else the
configuration.

An invalid annotation of a pod rejects the pod with one line. An invalid annotation of a namespace
is ignored with a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.decide.admission.fallback_candidates import FallbackPolicy
from scheduler.decide.admission.pod_group_tier import settled
from scheduler.model import well_known
from scheduler.model.gpu import gpu_memory
from scheduler.model.gpu.gpu_memory import GpuMemoryError
from scheduler.model.mig.fallback_ladder import Ladder, LadderError, parse_ladder
from scheduler.model.pods.injected_containers import IntendedContainer, meant
from scheduler.model.pods.pod import Pod, Role
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reservations import Reservation

#: Maximum length and number of names in a warning.
_NAME_SHOWN_MAX: Final = 63
_NAMES_SHOWN_MAX: Final = 4


class TermsError(ValueError):
    """An annotation about the pod's tier is invalid; the message is one line for the pod's
    author.
    """


def terms_of(
    cluster: Cluster,
    pod: Pod,
    configured: Sequence[Ladder],
    promises: Iterable[Reservation],
    shunned: frozenset[str],
) -> tuple[FallbackPolicy, tuple[str, ...]]:
    """The settings for a pod as created, and warnings; TermsError if the pod must be rejected."""
    try:
        ladders, warnings = _ladders(cluster, pod, configured)
        floor = gpu_memory.floor_of(pod.annotations)
        memory, guess = _memory(pod)
    except LadderError as error:
        raise TermsError(f"{well_known.MIG_FALLBACK}: {error}") from error
    except GpuMemoryError as error:
        raise TermsError(str(error)) from error
    _check_floor(pod, floor)
    terms = FallbackPolicy(
        ladders=ladders,
        floor=floor,
        memory=memory,
        shunned=shunned,
        settled=settled(cluster, pod, promises),
    )
    return terms, warnings + guess


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
    regular = [one.name for one in pod.containers if one.role is Role.APP]
    others = [one.name for one in pod.containers if one.role is not Role.APP]
    found = meant(regular, pod.annotations, others)
    rest = [name for name in regular + others if name != found.container]
    wanted = gpu_memory.wanted_of(pod.annotations, [found.container, *rest])
    if not wanted:
        return {}, ()
    problem = _against_memory(pod)
    if problem is not None:
        raise TermsError(f"{well_known.WANTED_MEMORY}: {problem}")
    is_guessed = found.guessed_from and not gpu_memory.names_all(pod.annotations)
    return wanted, (_guess(pod, found),) if is_guessed else ()


def _guess(pod: Pod, found: IntendedContainer) -> str:
    shown = [name[:_NAME_SHOWN_MAX] for name in found.guessed_from[:_NAMES_SHOWN_MAX]]
    more = len(found.guessed_from) - len(shown)
    among = ", ".join([*shown, f"{more} more"] if more else shown)
    amount = pod.annotations[well_known.WANTED_MEMORY].strip()[:_NAME_SHOWN_MAX]
    return (
        f"{well_known.WANTED_MEMORY}: no container is named, so {shown[0]} gets the GPU as the"
        f" first of {among}; write {shown[0]}={amount}, or set {well_known.DEFAULT_CONTAINER}"
    )


def _against_memory(pod: Pod) -> str | None:
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
            raise TermsError(
                f"{well_known.MEMORY_FLOOR}: {text} is more than the"
                f" {well_known.mig_profile(resource)} that the pod requests; request more, or"
                " lower the floor"
            )
