"""The claims of one pod, sorted by what is left to do: nothing, or to bind them on the chosen node.

The rules and texts are those of ``podHasPVCs`` and ``GetPodVolumeClaims`` in kube-scheduler's
volumebinding.
"""

from __future__ import annotations

import msgspec

from scheduler.framework.plugin import Refuse
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.pod_volumes import ClaimUse
from scheduler.plugins.volumes.codes import (
    CLAIM_NOT_BOUND,
    CLAIM_NOT_FOUND,
    CLAIM_NOT_USABLE,
)
from scheduler.state.volumes.store import VolumeStore


class PodClaims(msgspec.Struct, frozen=True):
    """``bound`` claims have their volume; ``delayed`` ones get it on the node of the pod."""

    bound: tuple[Claim, ...] = ()
    delayed: tuple[Claim, ...] = ()


def claims_of(view: View, pod: Pod) -> PodClaims | Refuse:
    """The claims of a pod, or why no node can take it now."""
    found: dict[str, Claim] = {}
    for use, key in zip(pod.volumes.claims, pod.claims, strict=True):
        claim = view.volumes.claim(key)
        if claim is None and use.is_ephemeral and not pod.uid:
            continue  # a pod under review is not created yet, and neither is this claim
        problem = missing(use) if claim is None else _problem(pod, use, claim)
        if problem is not None:
            return problem
        assert claim is not None
        found[key] = claim  # two volumes of a pod may name one claim
    every = found.values()
    waiting = [one for one in every if not one.is_bound and not _is_delayed(view.volumes, one)]
    if waiting:
        return _refuse(
            CLAIM_NOT_BOUND,
            "pod has unbound immediate PersistentVolumeClaims"
            f" ({'; '.join(_said(view.volumes, one) for one in waiting)})",
        )
    bound = tuple(one for one in every if one.is_bound)
    return PodClaims(bound, tuple(one for one in every if not one.is_bound))


def missing(use: ClaimUse) -> Refuse:
    """A claim does not exist; that of an ephemeral volume is created shortly after its pod."""
    if use.is_ephemeral:
        text = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
        return _refuse(CLAIM_NOT_FOUND, f'{text} "{use.name}"')
    return _refuse(CLAIM_NOT_FOUND, f'persistentvolumeclaim "{use.name}" not found')


def _problem(pod: Pod, use: ClaimUse, claim: Claim) -> Refuse | None:
    """Why a claim that exists cannot be used."""
    name = f'persistentvolumeclaim "{claim.name}"'
    if claim.unread:
        return _refuse(CLAIM_NOT_FOUND, f"{name} cannot be read: {claim.unread}")
    if claim.phase == "Lost":
        return _refuse(
            CLAIM_NOT_USABLE,
            f'{name} bound to non-existent persistentvolume "{claim.volume_name}"',
        )
    if claim.is_deleting:
        return _refuse(CLAIM_NOT_USABLE, f"{name} is being deleted")
    if use.is_ephemeral and pod.uid and claim.owner_uid != pod.uid:
        return _refuse(
            CLAIM_NOT_USABLE,
            f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)",
        )
    return None


def _is_delayed(store: VolumeStore, claim: Claim) -> bool:
    """Whether the claim waits for its first consumer; one with a volume in advance does not."""
    found = store.classes.get(claim.class_name)
    return found is not None and found.is_delayed and not claim.volume_name


def _said(store: VolumeStore, claim: Claim) -> str:
    """What a claim waits for: its class and provisioner, or the volume that it names."""
    if claim.volume_name:
        return f"claim {claim.name}: volume {claim.volume_name}"
    if not claim.class_name:
        return f"claim {claim.name}: no class"
    found = store.classes.get(claim.class_name)
    what = f"provisioner {found.provisioner}" if found is not None else "no such StorageClass"
    return f"claim {claim.name}: class {claim.class_name}: {what}"


def _refuse(code: ReasonCode, text: str) -> Refuse:
    return Refuse(Reason(code=code, text=text, resolvable=False))
