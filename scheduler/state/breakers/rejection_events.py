"""What kubelets refused, as it enters the state: now, and before our time."""

from __future__ import annotations

import msgspec

from scheduler.model.pods.pod import Pod


class PodRejected(msgspec.Struct, frozen=True):
    """The kubelet refused a pod that was bound to its node; the words are those of its status.

    Hearsay where the pod was deleted already, and the words are those of an event about it.
    """

    uid: str
    reason: str
    message: str = ""
    is_hearsay: bool = False


class PastRejection(msgspec.Struct, frozen=True):
    """A pod that a kubelet refused before our time; ``age_s`` is how long ago, in seconds."""

    pod: Pod
    node_name: str
    reason: str
    message: str
    age_s: float


class DeletedPodEvent(msgspec.Struct, frozen=True):
    """The same of a pod that was deleted since: an event about it, with which nothing is proved."""

    uid: str
    namespace: str
    pod_name: str
    node_name: str
    reason: str
    message: str
    age_s: float


class PastRejectionsRead(msgspec.Struct, frozen=True):
    """What kubelets refused before our time, as far as it can still be read."""

    refusals: tuple[PastRejection, ...] = ()
    hearsay: tuple[DeletedPodEvent, ...] = ()
