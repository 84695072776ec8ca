"""Events about pod rejections of kubelets: current ones, and those before the start of the
process.
"""

from __future__ import annotations

import msgspec

from scheduler.model.pods.pod import Pod


class PodRejected(msgspec.Struct, frozen=True):
    """The kubelet rejected a bound pod; reason and message are those of the pod's status.

    ``is_unconfirmed`` if the pod was deleted already, and the message is that of an event about it.
    """

    uid: str
    reason: str
    message: str = ""
    is_unconfirmed: bool = False


class PastRejection(msgspec.Struct, frozen=True):
    """A rejection before the start of the process; ``age_s`` is its age in seconds."""

    pod: Pod
    node_name: str
    reason: str
    message: str
    age_s: float


class DeletedPodEvent(msgspec.Struct, frozen=True):
    """The same for a deleted pod, from an event; such an event is no proof."""

    uid: str
    namespace: str
    pod_name: str
    node_name: str
    reason: str
    message: str
    age_s: float


class PastRejectionsRead(msgspec.Struct, frozen=True):
    """The rejections before the start of the process that can still be read."""

    rejections: tuple[PastRejection, ...] = ()
    deleted_pod_events: tuple[DeletedPodEvent, ...] = ()
