"""A terminated pod: whether its kubelet rejected it, or a container failed."""

from __future__ import annotations

import msgspec

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch
from scheduler.state.breakers.kubelet_rejection import is_rejection
from scheduler.watch.decode.api_types import ConditionWire, ContainerState


class _Write(msgspec.Struct, frozen=True):
    """The last write of a part of an object: the writer, and the API server's time."""

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
    """The fields that show how a pod ended."""

    metadata: _Meta
    status: _Status = _Status()

    @property
    def is_crash(self) -> bool:
        """Whether a container failed by itself, without a request to terminate the pod."""
        status = self.status
        if status.phase != "Failed" or status.reason or self.metadata.deletion_timestamp:
            return False
        if self._has("DisruptionTarget"):
            return False
        containers = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
        ends = (one.state.terminated for one in containers)
        return any(end is not None and end.exit_code != 0 for end in ends)

    @property
    def is_rejected(self) -> bool:
        """Whether its node's kubelet rejected it."""
        return self.status.phase == "Failed" and is_rejection(self.status.reason)

    @property
    def was_bound(self) -> bool:
        """Whether this scheduler bound it; otherwise its author set nodeName.

        A kubelet that rejects a pod removes the condition PodScheduled. The annotation is only
        written with a Binding: an admission policy rejects it otherwise.
        """
        return well_known.DECISION in (self.metadata.annotations or {})

    def at(self) -> float | None:
        """The time of the rejection, in seconds since 1970: the last write of its status.

        A node's clock may be wrong, so the API server's has precedence.
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
    """The pod in its last state, after a container failed permanently."""
    return msgspec.structs.replace(pod, phase="Failed", crashes=pod.crashes + 1)
