"""Claims and disks that only one pod may use (kube-scheduler: volumerestrictions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scheduler.framework import pod_reads
from scheduler.framework.plugin import FITS, BoundFilter, Plugin, Reasons, Refuse
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.volumes.pod_volumes import NO_VOLUMES, InlineDisk
from scheduler.plugins.volumes.codes import CLAIM_IN_USE, DISK_IN_USE
from scheduler.plugins.volumes.pod_claims import missing
from scheduler.state.node_info import NodeInfo

_SAME_DISK: Final = (Reason(code=DISK_IN_USE, text="node(s) had no available disk"),)

#: A claim's key, and the placed pods that use it with their nodes.
_Used = tuple[str, Mapping[str, tuple[Pod, str]]]


def pre_filter(view: View, pod: Pod, _settings: Settings) -> Refuse | BoundFilter | None:
    """Find out which of the pod's claims and disks exclude other pods."""
    if pod.volumes is NO_VOLUMES:
        return None
    used: list[_Used] = []
    for use, key in zip(pod.volumes.claims, pod.claims, strict=True):
        if use.is_ephemeral:
            continue
        claim = view.volumes.claim(key)
        if claim is None:
            return missing(use)
        # As in kube-scheduler's snapshot, a pod whose node is gone uses no claim.
        users = {
            uid: (user, at)
            for uid, (user, at) in view.volumes.users.of(key).items()
            if view.at(at) is not None
        }
        if claim.is_for_one_pod and users:
            used.append((key, users))
    disks = tuple(disk for disk in pod.volumes.disks if disk.restricts)
    return BoundFilter(_check(used, disks)) if used or disks else None


def _check(used: list[_Used], disks: tuple[InlineDisk, ...]) -> Callable[[NodeInfo], Reasons]:
    def check(node_info: NodeInfo) -> Reasons:
        if disks and any(
            disk.excludes(other)
            for one in node_info.with_volumes.values()
            for other in one.volumes.disks
            for disk in disks
        ):
            return _SAME_DISK
        for key, users in used:
            user = _user(key, users, node_info)
            if user is not None:
                return (_in_use(key, user),)
        return FITS

    return check


def _user(key: str, users: Mapping[str, tuple[Pod, str]], node_info: NodeInfo) -> Pod | None:
    """A pod that uses a claim, on any node; one that was taken off this node for a trial does not.

    So a preemption is tried out on one node, as ``RemovePod`` of the same plugin does.
    """
    assert node_info.node is not None
    for uid, (user, node_name) in users.items():
        if node_name != node_info.node.name or uid in node_info.pods:
            return user
    return next((one for one in node_info.with_volumes.values() if key in one.claims), None)


def _in_use(key: str, user: Pod) -> Reason:
    name = key.partition("/")[2]
    return Reason(
        code=CLAIM_IN_USE,
        text="node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
        f" already in-use by another pod (claim {name}; pod {user.name})",
    )


PLUGIN: Final = Plugin(
    name="VolumeRestrictions",
    skips_plain=True,
    reads=(pod_reads.VOLUMES,),
    codes=(CLAIM_IN_USE, DISK_IN_USE),
    pre_filter=pre_filter,
)
