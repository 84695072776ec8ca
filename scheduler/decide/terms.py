"""How a pod's tier is to be chosen: its own words, else its namespace's, else the configured ones.

A pod whose author wrote something that cannot be read is refused with one line; a namespace that
says such a thing is told in a warning, and its pods keep what they ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.decide.grouped import settled
from scheduler.decide.options import Terms
from scheduler.model import gpumemory, names
from scheduler.model.gpumemory import GpuMemoryError
from scheduler.model.injected import Meant, meant
from scheduler.model.ladder import Ladder, LadderError, parse_ladder
from scheduler.model.pod import Pod, Role
from scheduler.state.cluster import Cluster
from scheduler.state.promise import Promise

#: What a warning shows of names, and how many of them.
_NAME_SHOWN_MAX: Final = 63
_NAMES_SHOWN_MAX: Final = 4


class TermsError(ValueError):
    """What a pod says of its tier makes no sense; one line for its author."""


def terms_of(
    cluster: Cluster,
    pod: Pod,
    configured: Sequence[Ladder],
    promises: Iterable[Promise],
    shunned: frozenset[str],
) -> tuple[Terms, tuple[str, ...]]:
    """The terms of a pod as its author made it, and warnings; TermsError if it must be refused."""
    try:
        ladders, warnings = _ladders(cluster, pod, configured)
        floor = gpumemory.floor_of(pod.annotations)
        memory, guess = _memory(pod)
    except LadderError as error:
        raise TermsError(f"{names.MIG_FALLBACK}: {error}") from error
    except GpuMemoryError as error:
        raise TermsError(str(error)) from error
    _check_floor(pod, floor)
    terms = Terms(
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
    text = pod.annotations.get(names.MIG_FALLBACK)
    if text is not None:
        return (parse_ladder(text),), ()
    if pod.group:  # half of a gang on another tier helps nobody: its author has to want it
        return (), ()
    text = cluster.namespace(pod.namespace).annotations.get(names.MIG_FALLBACK)
    if text is None:
        return configured, ()
    try:
        return (parse_ladder(text),), ()
    except LadderError as error:
        return (), (f"namespace {pod.namespace}, {names.MIG_FALLBACK}: {error}",)


def _memory(pod: Pod) -> tuple[dict[str, int], tuple[str, ...]]:
    """How much each container wants, and a warning where it was guessed which one is meant."""
    regular = [one.name for one in pod.containers if one.role is Role.APP]
    others = [one.name for one in pod.containers if one.role is not Role.APP]
    found = meant(regular, pod.annotations, others)
    rest = [name for name in regular + others if name != found.container]
    wanted = gpumemory.wanted_of(pod.annotations, [found.container, *rest])
    if not wanted:
        return {}, ()
    problem = _against_memory(pod)
    if problem is not None:
        raise TermsError(f"{names.WANTED_MEMORY}: {problem}")
    is_guessed = found.guessed_from and not gpumemory.names_all(pod.annotations)
    return wanted, (_guess(pod, found),) if is_guessed else ()


def _guess(pod: Pod, found: Meant) -> str:
    shown = [name[:_NAME_SHOWN_MAX] for name in found.guessed_from[:_NAMES_SHOWN_MAX]]
    more = len(found.guessed_from) - len(shown)
    among = ", ".join([*shown, f"{more} more"] if more else shown)
    amount = pod.annotations[names.WANTED_MEMORY].strip()[:_NAME_SHOWN_MAX]
    return (
        f"{names.WANTED_MEMORY}: no container is named, so {shown[0]} gets the GPU as the first of"
        f" {among}; write {shown[0]}={amount}, or set {names.DEFAULT_CONTAINER}"
    )


def _against_memory(pod: Pod) -> str | None:
    requested = sorted({device for one in pod.containers for device in one.devices})
    if requested:
        return f"the pod also requests {' and '.join(requested)}; keep one of the two"
    if pod.map_text is not None:
        return f"the pod also has a {names.MAP}, which names its GPUs; keep one of the two"
    if pod.node_name:
        return (
            f"the pod has a node already ({pod.node_name}), so nobody can choose for it; request"
            " what that node offers"
        )
    return None


def _check_floor(pod: Pod, floor: int) -> None:
    for resource in pod.gpu_requests:
        if names.is_mig(resource) and not gpumemory.has(resource, floor):
            text = pod.annotations[names.MEMORY_FLOOR].strip()
            raise TermsError(
                f"{names.MEMORY_FLOOR}: {text} is more than the {names.mig_profile(resource)} that"
                " the pod asks for; ask for more, or lower the floor"
            )
