"""A pod that ended, as far as its end matters: its kubelet refused it, or a container failed."""

from __future__ import annotations

import msgspec

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch
from scheduler.state.breakers.kubelet_rejection import is_refusal
from scheduler.watch.decode.api_types import ConditionWire, ContainerState


class _Write(msgspec.Struct, frozen=True):
    """Who wrote which part of an object last, and when by the API server's clock."""

    subresource: str = ""
    time: str | None = None


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    managed_fields: tuple[_Write, ...] | None = None


class _Container(msgspec.Struct, frozen=True):
    state: ContainerState = ContainerState()


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    conditions: tuple[ConditionWire, ...] | None = None
    container_statuses: tuple[_Container, ...] | None = None
    init_container_statuses: tuple[_Container, ...] | None = None


class EndedPod(msgspec.Struct, frozen=True):
    """Just what tells how a pod ended."""

    metadata: _Meta
    status: _Status = _Status()

    @property
    def is_crash(self) -> bool:
        """Whether a container failed by itself: nobody told the pod to end."""
        status = self.status
        if status.phase != "Failed" or status.reason or self.metadata.deletion_timestamp:
            return False
        if self._has("DisruptionTarget"):
            return False
        containers = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        ends = (one.state.terminated for one in containers)
        return any(end is not None and end.exit_code != 0 for end in ends)

    @property
    def is_refused(self) -> bool:
        """Whether its node's kubelet did not admit it."""
        return self.status.phase == "Failed" and is_refusal(self.status.reason)

    @property
    def was_bound(self) -> bool:
        """Whether we bound it; its author may have named the node himself.

        A kubelet that refuses a pod takes the condition PodScheduled off it. The annotation is
        only written with a Binding: an admission policy refuses it otherwise.
        """
        return well_known.DECISION in (self.metadata.annotations or {})

    def at(self) -> float | None:
        """When it was refused, in seconds since 1970: its status is written last then.

        A node's clock may be wrong, so the API server's comes first.
        """
        writes = self.metadata.managed_fields or ()
        written = [one.time for one in writes if one.subresource == "status"]
        texts = written or [self.status.start_time, self.metadata.creation_timestamp]
        times = (epoch(text) for text in texts if text)
        return max((at for at in times if at is not None), default=None)

    def _has(self, condition: str) -> bool:
        conditions = self.status.conditions or ()
        return any((c.type, c.status) == (condition, "True") for c in conditions)


ENDED = msgspec.json.Decoder(EndedPod)


def crashed(pod: Pod) -> Pod:
    """The pod in its last state, after a container failed for good."""
    return msgspec.structs.replace(pod, phase="Failed", crashes=pod.crashes + 1)
