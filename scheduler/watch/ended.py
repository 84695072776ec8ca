"""A pod that ended, as far as its end matters: its kubelet refused it, or a container failed."""

from __future__ import annotations

from datetime import datetime

import msgspec

from scheduler.model.pod import Pod
from scheduler.state.refusal import is_refusal
from scheduler.watch.wire import ConditionWire, ContainerState


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


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


class Ended(msgspec.Struct, frozen=True):
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
        """Whether a scheduler bound it; its author may have named the node himself."""
        return self._has("PodScheduled")

    def at(self) -> datetime | None:
        """When it was refused: after it was bound, and a kubelet writes its clock's time."""
        bound = [c.last_transition_time for c in self._conditions() if c.type == "PodScheduled"]
        times = [moment(text) for text in (*bound, self.status.start_time)]
        return max((at for at in times if at), default=moment(self.metadata.creation_timestamp))

    def _conditions(self) -> tuple[ConditionWire, ...]:
        return self.status.conditions or ()

    def _has(self, condition: str) -> bool:
        return any((c.type, c.status) == (condition, "True") for c in self._conditions())


ENDED = msgspec.json.Decoder(Ended)


def moment(text: str | None) -> datetime | None:
    """A timestamp of the API; None where there is none that can be read."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def crashed(pod: Pod) -> Pod:
    """The pod in its last state, after a container failed for good."""
    return msgspec.structs.replace(pod, phase="Failed", crashes=pod.crashes + 1)
