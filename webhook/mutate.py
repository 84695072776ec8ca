"""The decision about one pod at admission: a patch, warnings, a denial, log lines.

Pure: the pod, the request, the scheduler's answer and the configuration come in, an Outcome goes
out. A pod out of scope is never changed, the patch always applies, and a second call on the
patched pod changes nothing.

    ours   pods of our scheduler: strip what only we may write, check, degrade, set the variable
    any    pods of every other scheduler: the MIG fallback and nothing else
"""

from __future__ import annotations

import msgspec

from scheduler.model import names
from scheduler.model.admission import Answer, Scope
from scheduler.model.gpumap import shown
from webhook import environment, fallback, mapped, rawpod, tiernodes
from webhook.outcome import FORBIDDEN, Denial, Draft, Outcome, Refused
from webhook.patch import difference
from webhook.rawpod import RawPod

__all__ = ["Answer", "Config", "Denial", "Outcome", "Request", "needs_answer", "review"]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the webhook was told when it was started."""

    scheduler_name: str = names.SCHEDULER_NAME


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision reads of the admission request besides the pod."""

    namespace: str
    scope: Scope = "ours"
    dry_run: bool = False


def needs_answer(pod: RawPod, request: Request, config: Config) -> bool:
    """Whether the scheduler has to be asked: never for a pod that is refused or left alone."""
    if not _is_in_scope(pod, request, config):
        return False
    if request.scope == "any":
        return True
    try:
        has_map = _checked(Draft(pod, request.namespace)) is not None
    except Refused:
        return False
    wants_memory = names.WANTED_MEMORY in rawpod.annotations_of(pod)
    return (
        has_map
        or wants_memory
        or any(rawpod.uses_devices(slot.container) for slot in rawpod.slots(pod))
    )


def review(pod: RawPod, request: Request, answer: Answer | None, config: Config) -> Outcome:
    """Decide about one pod; ``answer`` is None where the scheduler was not asked or is silent."""
    if not _is_in_scope(pod, request, config):
        return Outcome()
    draft = Draft(pod, request.namespace)
    draft.log.append(f"Reviewing pod: {draft.key}")
    denial = None
    try:
        _decide(draft, request, answer)
    except Refused as refused:
        denial = refused.denial
        draft.log.append(f"Denied pod {draft.key}: {denial.message}")
    return Outcome(
        patch=() if denial else tuple(difference(pod, draft.pod)),
        warnings=tuple(draft.warnings),
        denial=denial,
        log=tuple(draft.log),
        audit=draft.audit,
    )


def _is_in_scope(pod: RawPod, request: Request, config: Config) -> bool:
    is_ours = rawpod.spec(pod).get("schedulerName") == config.scheduler_name
    if request.scope == "ours":
        return is_ours
    return not is_ours and any(rawpod.mig_resources(s.container) for s in rawpod.slots(pod))


def _decide(draft: Draft, request: Request, answer: Answer | None) -> None:
    fallback.mention(draft)
    pod_map = _checked(draft) if request.scope == "ours" else None
    if answer and answer.denied is not None:
        raise Refused(answer.denied, FORBIDDEN)
    _strip(draft, request, answer)
    if pod_map:
        _check_node(draft, pod_map, answer)
        environment.inject(draft, pod_map, answer)
    fallback.degrade(draft, answer)
    if answer:
        tiernodes.bind(draft, answer.where)
        draft.warnings += answer.warnings
        _reserve(draft, answer)
    if request.scope == "ours":
        mapped.check_annotations_size(draft.pod)


def _checked(draft: Draft) -> mapped.Mapped | None:
    mapped.check_annotations_size(draft.pod)
    return mapped.read(draft.pod)


def _strip(draft: Draft, request: Request, answer: Answer | None) -> None:
    """Take away what only a Binding or this webhook may write, unless an earlier call wrote it."""
    is_second_call = answer is not None and answer.known_reservation
    gone = []
    for key, value in rawpod.annotations_of(draft.pod).items():
        if key in names.ADMISSION_KEYS:
            given = (answer.reservation, answer.move) if answer else ()
            is_forged = not is_second_call and value not in given
        else:
            is_forged = request.scope == "ours" and names.is_protected(key)
        if is_forged:
            gone.append(key)
            draft.warnings.append(f"annotation {key} is removed: only {names.PREFIX[:-1]} sets it")
    draft.annotate(dict.fromkeys(gone))


def _check_node(draft: Draft, pod_map: mapped.Mapped, answer: Answer | None) -> None:
    """Refuse a pod that is already on a node, where its map names another one."""
    entry = pod_map.entry
    node_name = rawpod.text(rawpod.spec(draft.pod).get("nodeName"))
    if not node_name or entry is None or entry.node == node_name:
        return
    named = f'{names.MAP} index {entry.index}: the line names node "{shown(entry.node)}"'
    if answer is None:
        draft.warnings.append(f"{named}, which was not compared with spec.nodeName")
        return
    known = answer.node_kinds.get(entry.node)
    if known is None or known.node != node_name:
        raise Refused(f'{named}, spec.nodeName is "{shown(node_name)}"')


def _reserve(draft: Draft, answer: Answer) -> None:
    """Mark the pod, so that the scheduler knows it again when it is created."""
    if answer.reservation and answer.annotate:
        draft.annotate({names.RESERVATION: answer.reservation})
        draft.audit["reservation"] = answer.reservation
    if answer.move:
        draft.annotate({names.MOVE: answer.move})
        draft.audit["move"] = answer.move
