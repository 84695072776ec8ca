"""Limits the recreation of pods that the webhook did not mutate. Pure: time is an argument.

A recreation helps only if the webhook serves again, and must not repeat forever::

    silent --heartbeat--> answers --for 30 s--> steady --a query--> steady and proved
       ^                   '--- no heartbeat for 15 s: back to silent -------'

The webhook's heartbeat shows that it runs; only a query shows that the API server calls it. Before
the first query only one pod is recreated, as a trial; its admission is the query.

Each owner has at most three tries, at least a minute apart. A try succeeded if no further pod of
the owner waits five seconds later. Then the pods that waited with it follow, one every five
seconds. So a broken webhook costs an owner three pods, and a working one leaves no pod waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.model.pods.pod import Pod

STEADY_AFTER_S: Final = 30.0
SILENT_AFTER_S: Final = 15.0
PAUSE_S: Final = 60.0
FOLLOW_S: Final = 5.0
TRIES_MAX: Final = 3
AT_ONCE_MAX: Final = 5
OWNERS_MAX: Final = 10_000
#: Controllers that recreate a deleted pod and do not count it as a failure.
KINDS: Final = frozenset(("ReplicaSet", "StatefulSet"))


def is_replaceable(pod: Pod) -> bool:
    """Whether the pod's controller recreates it after a deletion without side effects."""
    return pod.owner is not None and pod.owner.word in KINDS


class WebhookLiveness:
    """How long the webhook has answered without a gap."""

    def __init__(self, steady_after_s: float = STEADY_AFTER_S) -> None:
        self._steady_after_s = steady_after_s
        self._since = 0.0
        self._last = float("-inf")
        #: Counts the gaps, to distinguish two periods of service.
        self.stretch = 0
        self.is_proved = False

    def beat(self, now: float) -> None:
        """A heartbeat of the webhook."""
        if now - self._last > SILENT_AFTER_S:
            self.stretch += 1
            self._since, self.is_proved = now, False
        self._last = now

    def asked(self, now: float) -> None:
        """The API server sent an admission review to the webhook."""
        self.beat(now)
        self.is_proved = True

    def is_steady(self, now: float) -> bool:
        """Whether the webhook has answered long enough, and still answers."""
        return now - self._last <= SILENT_AFTER_S and now - self._since >= self._steady_after_s


class RecreateAttempts(msgspec.Struct, frozen=True):
    """The tries of one owner: their number, the last time, and the pods that waited then."""

    count: int = 0
    at: float = float("-inf")
    known: frozenset[str] = frozenset()


NONE: Final = RecreateAttempts()


class RecreateBudget:
    """The tries of all owners."""

    def __init__(self, pulse: WebhookLiveness) -> None:
        self._pulse = pulse
        self._owners: dict[str, RecreateAttempts] = {}
        self._tried_in = 0

    def due(self, waiting: Iterable[Pod], now: float) -> list[Pod]:
        """The waiting pods to recreate now; they count as recreated."""
        found: list[Pod] = []
        if not self._pulse.is_steady(now):
            return found
        pods = [pod for pod in waiting if is_replaceable(pod)]
        uids: dict[str, set[str]] = {}
        for pod in pods:
            uids.setdefault(pod.workload, set()).add(pod.uid)
        for pod in pods:
            if len(found) >= AT_ONCE_MAX or self._is_on_trial():
                break
            tries = self._next(pod, frozenset(uids[pod.workload]), now)
            if tries is not None and not pod.is_deleting and not pod.node_name:
                self._enter(pod.workload, tries)
                found.append(pod)
        return found

    def count(self, pod: Pod) -> int:
        """The number of tries of this pod's owner."""
        return self._owners.get(pod.workload, NONE).count

    def _is_on_trial(self) -> bool:
        return not self._pulse.is_proved and self._tried_in == self._pulse.stretch

    def _next(self, pod: Pod, waiting: frozenset[str], now: float) -> RecreateAttempts | None:
        """The owner's tries including a recreation of this pod now; None if it is not allowed."""
        before = self._owners.get(pod.workload, NONE)
        has_helped = before.count > 0 and self._pulse.is_proved and waiting <= before.known
        if has_helped and now - before.at >= FOLLOW_S:
            return RecreateAttempts(before.count, now, before.known)
        if before.count < TRIES_MAX and now - before.at >= PAUSE_S:
            return RecreateAttempts(before.count + 1, now, waiting)
        return None

    def _enter(self, workload: str, tries: RecreateAttempts) -> None:
        self._tried_in = self._pulse.stretch
        self._owners.pop(workload, None)
        if len(self._owners) >= OWNERS_MAX:
            del self._owners[next(iter(self._owners))]
        self._owners[workload] = tries
