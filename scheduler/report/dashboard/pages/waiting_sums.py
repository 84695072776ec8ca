"""The waiting pods in sums: by reason, by owner and by namespace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.report.dashboard.pages.page import NEW
from scheduler.state.capacity.node_devices import Amounts, add_amounts, requested_by
from scheduler.state.parts import Parts
from scheduler.state.queue.position import in_slices, order
from scheduler.state.queue.scheduling_queue import QueuedPodInfo

_NEVER: Final = float("inf")


class WaitingSum(msgspec.Struct):
    """Waiting pods with something in common; ``since`` is of the one that waits longest."""

    pods: int = 0
    devices: Amounts = {}
    since: float = _NEVER
    oldest: QueuedPodInfo | None = None
    codes: dict[str, int] = {}

    def add(self, entry: QueuedPodInfo, devices: Amounts, code: str) -> None:
        """Count a pod."""
        self.pods += 1
        add_amounts(self.devices, devices)
        self.codes[code] = self.codes.get(code, 0) + 1
        is_older = self.oldest is None or order(entry) < order(self.oldest)
        if entry.since < self.since or (entry.since == self.since and is_older):
            self.since, self.oldest = entry.since, entry


class WaitingSums:
    """The sums of all pods that wait."""

    def __init__(self) -> None:
        self.every = WaitingSum()
        self.by_code: dict[str, WaitingSum] = {}
        self.by_owner: dict[tuple[str, str], WaitingSum] = {}
        self.by_namespace: dict[str, WaitingSum] = {}

    def add(self, entry: QueuedPodInfo) -> None:
        """Count a pod."""
        pod, code = entry.pod, entry.code or NEW
        devices = requested_by(pod)
        owner = (pod.namespace, owner_of(pod))
        for one in (
            self.every,
            self.by_code.setdefault(code, WaitingSum()),
            self.by_owner.setdefault(owner, WaitingSum()),
            self.by_namespace.setdefault(pod.namespace, WaitingSum()),
        ):
            one.add(entry, devices, code)

    def codes(self) -> list[tuple[str, WaitingSum]]:
        """By reason, those of the most pods first."""
        return sorted(self.by_code.items(), key=lambda item: (-item[1].pods, item[0]))

    def owners(self) -> list[tuple[tuple[str, str], WaitingSum]]:
        """By owner, those of the most pods first."""
        return sorted(self.by_owner.items(), key=lambda item: (-item[1].pods, item[0]))


def waiting_sums(entries: Sequence[QueuedPodInfo]) -> Parts[WaitingSums]:
    """The sums of these pods."""
    sums = WaitingSums()
    for part in in_slices(entries):
        for entry in part:
            sums.add(entry)
        yield len(part)
    return sums


def owner_of(pod: Pod) -> str:
    """The object that the user created, as ``Deployment/web``; empty for a bare pod."""
    if pod.owner is None:
        return ""
    kind, _, rest = pod.workload.partition("/")[2].partition("/")
    return f"{kind}/{rest.partition('/')[0]}"
