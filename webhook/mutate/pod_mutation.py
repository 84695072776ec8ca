"""The decision about one pod at admission: a patch, warnings, a denial, log lines.

Pure: the pod, the request, the scheduler's answer and the configuration come in, an Outcome goes
out. A pod out of scope is never changed, the patch always applies, and a second call on the
patched pod changes nothing.

    ours   pods of our scheduler: strip what only we may write, check, degrade, set the variable
    any    pods of every other scheduler: the MIG fallback and nothing else
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, Scope
from scheduler.model.gpu_map import shown
from webhook.mutate import cuda_env, gpu_map, raw_pod, resource_rewrite, tier_node_affinity
from webhook.mutate.json_patch import difference
from webhook.mutate.pod_draft import FORBIDDEN, Denial, Outcome, PodDraft, Refused
from webhook.mutate.raw_pod import RawPod

#: Annotations that only the scheduler can judge, whatever the containers request.
_ASKS: Final = (well_known.WANTED_MEMORY, *well_known.ADMISSION_KEYS)

__all__ = ["AdmissionDecision", "Config", "Denial", "Outcome", "PodMutation", "Request"]


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What the webhook was told when it was started."""

    scheduler_name: str = well_known.SCHEDULER_NAME


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision reads of the admission request besides the pod."""

    namespace: str
    scope: Scope = "ours"
    dry_run: bool = False


class PodMutation:
    """One pod under review: what is known of it before anybody is asked."""

    def __init__(self, pod: RawPod, request: Request, config: Config) -> None:
        """Reads the pod once; whether to ask and what to decide both rest on it."""
        self._pod = pod
        self._request = request
        self._is_in_scope = _is_in_scope(pod, request, config)
        self._draft = PodDraft(pod, request.namespace)
        self._map: gpu_map.MappedPod | None = None
        self._refused: Refused | None = None
        if not self._is_in_scope:
            return
        self._draft.log.append(f"Reviewing pod: {self._draft.key}")
        resource_rewrite.mention(self._draft)
        try:
            if request.scope == "ours":
                gpu_map.check_annotations_size(pod)
                self._map = gpu_map.read(pod)
        except Refused as refused:
            self._refused = refused

    @property
    def needs_answer(self) -> bool:
        """Whether the scheduler has to be asked: only where its answer can change something.

        A question is the dearest part of a review, and whole GPUs, which are neither degraded
        nor promised, are what most pods ask for.
        """
        if not self._is_in_scope or self._refused is not None:
            return False
        if self._request.scope == "any" or self._map is not None:
            return True
        given = raw_pod.annotations_of(self._pod)
        return any(key in given for key in _ASKS) or any(
            raw_pod.names_mig(slot.container) for slot in raw_pod.slots(self._pod)
        )

    def outcome(self, answer: AdmissionDecision | None) -> Outcome:
        """Decide; ``answer`` is None where the scheduler was not asked or is silent. Once only."""
        if not self._is_in_scope:
            return Outcome()
        draft, denial = self._draft, None
        try:
            if self._refused is not None:
                raise self._refused
            _decide(draft, self._request, self._map, answer)
            if self._request.scope == "ours" and draft.pod is not self._pod:
                gpu_map.check_annotations_size(draft.pod)
        except Refused as refused:
            denial = refused.denial
            draft.log.append(f"Denied pod {draft.key}: {denial.message}")
        return Outcome(
            patch=() if denial else tuple(difference(self._pod, draft.pod)),
            warnings=tuple(draft.warnings),
            denial=denial,
            log=tuple(draft.log),
            audit=draft.audit,
        )


def _is_in_scope(pod: RawPod, request: Request, config: Config) -> bool:
    is_ours = raw_pod.spec(pod).get("schedulerName") == config.scheduler_name
    if request.scope == "ours":
        return is_ours
    return not is_ours and any(raw_pod.mig_resources(s.container) for s in raw_pod.slots(pod))


def _decide(
    draft: PodDraft,
    request: Request,
    pod_map: gpu_map.MappedPod | None,
    answer: AdmissionDecision | None,
) -> None:
    if answer and answer.denied is not None:
        raise Refused(answer.denied, FORBIDDEN)
    _strip(draft, request, answer)
    if pod_map:
        _check_node(draft, pod_map, answer)
        if _may_be_told(draft, answer):
            cuda_env.inject(draft, pod_map, answer)
    resource_rewrite.degrade(draft, answer)
    if answer:
        tier_node_affinity.bind(draft, answer.where)
        draft.warnings += answer.warnings
        _reserve(draft, answer)


def _strip(draft: PodDraft, request: Request, answer: AdmissionDecision | None) -> None:
    """Take away what only a Binding or this webhook may write, unless an earlier call wrote it."""
    is_second_call = answer is not None and answer.known_reservation
    gone = []
    for key, value in raw_pod.annotations_of(draft.pod).items():
        if key in well_known.ADMISSION_KEYS:
            given = (answer.reservation, answer.move) if answer else ()
            is_forged = not is_second_call and value not in given
        else:
            is_forged = request.scope == "ours" and well_known.is_protected(key)
        if is_forged:
            gone.append(key)
            draft.warnings.append(
                f"annotation {key} is removed: only {well_known.PREFIX[:-1]} sets it"
            )
    draft.annotate(dict.fromkeys(gone))


def _check_node(
    draft: PodDraft, pod_map: gpu_map.MappedPod, answer: AdmissionDecision | None
) -> None:
    """Refuse a pod that is already on a node, where its map names another one."""
    entry = pod_map.entry
    node_name = raw_pod.text(raw_pod.spec(draft.pod).get("nodeName"))
    if not node_name or entry is None or entry.node == node_name:
        return
    named = f'{well_known.MAP} index {entry.index}: the line names node "{shown(entry.node)}"'
    if answer is None:
        draft.warnings.append(f"{named}, which was not compared with spec.nodeName")
        return
    known = answer.node_kinds.get(entry.node)
    if known is None or known.node != node_name:
        raise Refused(f'{named}, spec.nodeName is "{shown(node_name)}"')


def _may_be_told(draft: PodDraft, answer: AdmissionDecision | None) -> bool:
    """Whether the map's devices are told to a pod: not to one that avoided its namespace's rights.

    A pod without a node waits until its namespace may use maps; nothing has to be taken back then.
    Where the scheduler is silent nobody knows, and the pod is told, as it always is then.
    """
    if answer is None or answer.may_map or not raw_pod.spec(draft.pod).get("nodeName"):
        return True
    draft.warnings.append(
        f"{well_known.MAP} is ignored: namespace {draft.namespace} may not use it (label it"
        f" {well_known.MAPS_ALLOWED}=allowed), and spec.nodeName is given"
    )
    return False


def _reserve(draft: PodDraft, answer: AdmissionDecision) -> None:
    """Mark the pod, so that the scheduler knows it again when it is created."""
    if answer.reservation and answer.annotate:
        draft.annotate({well_known.RESERVATION: answer.reservation})
        draft.audit["reservation"] = answer.reservation
    if answer.move:
        draft.annotate({well_known.MOVE: answer.move})
        draft.audit["move"] = answer.move
