"""Rewrites a request to the MIG tier that the scheduler granted, and records the change.

Limits and requests change together, because the API server rejects a pod where they differ. A
second call of the same admission (``reinvocationPolicy: IfNeeded``) finds the record of the first:
it only removes a tier that another plugin added again, and never rewrites or sums again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from scheduler.model import well_known
from scheduler.model.admission import NOTHING, AdmissionDecision, ResourceRewrite
from scheduler.model.limits import RECORD_LENGTH_MAX
from webhook.mutate import raw_pod
from webhook.mutate.pod_draft import PodDraft
from webhook.mutate.raw_pod import ContainerRef, RawContainer

_ARROW: Final = "->"
_SIDES: Final = ("limits", "requests")


def degrade(draft: PodDraft, answer: AdmissionDecision | None) -> None:
    """Apply the scheduler's decision, or keep the result of an earlier call of this admission.

    When the scheduler does not answer the second call, the record on the pod counts: it can only
    remove a resource that the pod's author requested twice.
    """
    if answer is None:
        _drop_readded(draft, ())
    elif answer.known_reservation:
        _drop_readded(draft, answer.rewrites)
    elif answer.rewrites:
        _rewrite(draft, answer.rewrites)


def _rewrite(draft: PodDraft, rewrites: Sequence[ResourceRewrite]) -> None:
    _add(draft, [rewrite for rewrite in rewrites if rewrite.source == NOTHING])
    done: list[tuple[ContainerRef, ResourceRewrite]] = []
    for slot in raw_pod.slots(draft.pod):
        possible = [rewrite for rewrite in _of(slot, rewrites) if _is_possible(slot, rewrite)]
        if possible:
            container = _moved(slot.container, possible)
            draft.pod = raw_pod.with_container(draft.pod, slot, container)
            done += [(slot, rewrite) for rewrite in possible]
    if done:
        _record(draft, done)


def _add(draft: PodDraft, rewrites: Sequence[ResourceRewrite]) -> None:
    """One device for each container that requests GPU memory."""
    given: dict[str, str] = {}
    for slot in raw_pod.slots(draft.pod):
        for rewrite in _of(slot, rewrites):
            if not raw_pod.uses_devices(slot.container):
                container = _with_one(slot.container, rewrite.target)
                draft.pod = raw_pod.with_container(draft.pod, slot, container)
                given[slot.name] = well_known.mig_profile(rewrite.target)
    if given:
        record = ",".join(f"{name}={profile}" for name, profile in given.items())
        draft.annotate({well_known.MEMORY_GIVEN: record})
        draft.log.append(f"Gave {record} for the GPU memory that pod {draft.key} requests")
        draft.audit["gpu-memory"] = record


def _with_one(container: RawContainer, resource: str) -> RawContainer:
    sides = {side: {**raw_pod.resources(container, side), resource: "1"} for side in _SIDES}
    return {**container, "resources": {**raw_pod.mapping(container.get("resources")), **sides}}


def _of(slot: ContainerRef, rewrites: Iterable[ResourceRewrite]) -> list[ResourceRewrite]:
    return [r for r in rewrites if r.container == slot.name and r.init == slot.is_init]


def _is_possible(slot: ContainerRef, rewrite: ResourceRewrite) -> bool:
    """Amounts that the API server rejects are not changed."""
    container, target = slot.container, rewrite.target
    own = [raw_pod.resources(container, side).get(target, 0) for side in _SIDES]
    return raw_pod.requested(container, rewrite.source) is not None and (
        all(raw_pod.count(amount) == 0 for amount in own)
        or raw_pod.requested(container, target) is not None
    )


def _moved(container: RawContainer, rewrites: Sequence[ResourceRewrite]) -> RawContainer:
    """The container with the sources' amounts at their targets, all at once."""
    sources = {rewrite.source for rewrite in rewrites}
    parts: dict[str, list[Any]] = {}
    for rewrite in rewrites:
        parts.setdefault(rewrite.target, []).append(raw_pod.requested(container, rewrite.source))
    for target, amounts in parts.items():
        own = raw_pod.requested(container, target)
        if own is not None and target not in sources:
            amounts.append(own)
    targets = {target: _total(amounts) for target, amounts in parts.items()}
    changed = dict(container["resources"])
    for side in _SIDES:
        before = raw_pod.resources(container, side)
        # Missing requests are defaulted from the limits by the API server later.
        if side == "limits" or before.keys() & (sources | targets.keys()):
            kept = {key: value for key, value in before.items() if key not in sources}
            changed[side] = {**kept, **targets}
    return {**container, "resources": changed}


def _total(amounts: Sequence[Any]) -> Any:
    """One amount keeps its spelling; several become their sum."""
    if len(amounts) == 1:
        return amounts[0]
    return str(sum(raw_pod.count(amount) or 0 for amount in amounts))


def _record(draft: PodDraft, done: Sequence[tuple[ContainerRef, ResourceRewrite]]) -> None:
    """The seeds' two annotations and log lines: the first change, all original requests."""
    moves = [
        f"{well_known.mig_profile(r.source)}{_ARROW}{well_known.mig_profile(r.target)}"
        for _, r in done
    ]
    regular = [move for (slot, _), move in zip(done, moves, strict=True) if not slot.is_init]
    first = (regular or moves)[0]
    original = {slot.name: _devices(slot.container) for slot, _ in done}
    draft.annotate(
        {
            well_known.FALLBACK: first,
            well_known.ORIGINAL: msgspec.json.encode(original, order="sorted").decode(),
        }
    )
    for move in dict.fromkeys(moves):
        source, target = move.split(_ARROW)
        draft.log.append(f"{source} not available, falling back to {target} for pod {draft.key}")
    draft.log.append(f"Applied fallback patch to pod {draft.key}")
    draft.audit["fallback"] = ",".join(dict.fromkeys(moves))


def _devices(container: RawContainer) -> dict[str, dict[str, Any]]:
    sides = {side: raw_pod.resources(container, side) for side in _SIDES}
    return {
        side: {key: value for key, value in amounts.items() if well_known.is_gpu_device(key)}
        for side, amounts in sides.items()
        if amounts
    }


def _drop_readded(draft: PodDraft, rewrites: Sequence[ResourceRewrite]) -> None:
    """Remove a source that was added again beside its target (LimitRanger adds its defaults)."""
    given = raw_pod.annotations_of(draft.pod)
    original = _decoded(given.get(well_known.ORIGINAL, ""))
    source, arrow, target = given.get(well_known.FALLBACK, "").partition(_ARROW)
    if not original or not arrow:
        return
    first = (well_known.mig_resource(source), well_known.mig_resource(target))
    for slot in raw_pod.slots(draft.pod):
        if slot.name not in original:
            continue
        moves = [(r.source, r.target) for r in _of(slot, rewrites)] or [first]
        targets = {to for _, to in moves}
        if any(raw_pod.requested(slot.container, to) is not None for to in targets):
            gone = {source for source, _ in moves} - targets
            draft.pod = raw_pod.with_container(draft.pod, slot, _without(slot.container, gone))


def _decoded(text: str) -> dict[str, Any]:
    if len(text) > RECORD_LENGTH_MAX:
        return {}
    try:
        return raw_pod.mapping(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # users can write it
        return {}


def _without(container: RawContainer, gone: set[str]) -> RawContainer:
    if not any(gone & raw_pod.resources(container, side).keys() for side in _SIDES):
        return container
    changed = {
        side: {k: v for k, v in value.items() if k not in gone}
        if side in _SIDES and value
        else value
        for side, value in container["resources"].items()
    }
    return {**container, "resources": changed}
