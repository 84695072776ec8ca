"""The leader, as the dashboard of any replica names it."""

from __future__ import annotations

from typing import Protocol

from scheduler.model.lease import LeaderTerm


class Leadership(LeaderTerm, Protocol):
    """What is read of the election."""

    @property
    def holder(self) -> str:
        """The identity of the leader as last seen; empty if there is none."""

    @property
    def led_since(self) -> float | None:
        """When this process became the leader, on the loop's clock; None for a follower."""


def pod_of(identity: str) -> str:
    """The pod of an identity (``POD_UID``).

    >>> pod_of("gpu-scheduler-7d9c-x2k4q_1f0e"), pod_of("")
    ('gpu-scheduler-7d9c-x2k4q', '')
    """
    return identity.rpartition("_")[0] or identity
