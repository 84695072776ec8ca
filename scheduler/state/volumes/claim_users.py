"""Which placed pods use which claim: a ReadWriteOncePod claim has one user at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler.model.pods.pod import Pod

_NONE: Final[Mapping[str, tuple[Pod, str]]] = {}


class ClaimUsers:
    """The placed pods of each claim, with their nodes; a claim of an ephemeral volume has none.

    kube-scheduler counts the same in ``pkg/scheduler/framework`` (``PVCRefCounts``).
    """

    def __init__(self) -> None:
        self._users: dict[str, dict[str, tuple[Pod, str]]] = {}

    def of(self, key: str) -> Mapping[str, tuple[Pod, str]]:
        """Uid -> pod and node of those that use a claim."""
        return self._users.get(key, _NONE)

    def add(self, pod: Pod, node_name: str) -> None:
        """A pod was placed, or placed again."""
        for use, key in zip(pod.volumes.claims, pod.claims, strict=True):
            if not use.is_ephemeral:
                self._users.setdefault(key, {})[pod.uid] = (pod, node_name)

    def remove(self, pod: Pod) -> None:
        """A pod left its node."""
        for key in pod.claims:
            users = self._users.get(key)
            if users is not None and users.pop(pod.uid, None) is not None and not users:
                del self._users[key]
