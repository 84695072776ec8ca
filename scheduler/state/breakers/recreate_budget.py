"""When a pod that came past the webhook may be replaced. Pure: time is an argument.

A replacement helps only if the webhook answers by now, and must never go on for ever::

    silent --a sign--> answers --for 30 s--> steady --a question--> steady and proved
       ^                  '---- no sign for 15 s: from the beginning -------'

The webhook's heartbeat shows that it runs; only a question shows that the API server asks it.
Until there was one, a single pod is replaced, as a trial, and its replacement is the question.

Per owner there are at most three tries, a minute apart, however they end. A try has helped if five
seconds later no further pod of the owner waits: then those that waited with it follow, one every
five seconds. So a webhook that never helps costs an owner three pods, and one that does help
leaves none behind.
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
#: Controllers that make a deleted pod again, and count it for nothing.
KINDS: Final = frozenset(("ReplicaSet", "StatefulSet"))


def is_replaceable(pod: Pod) -> bool:
    """Whether its controller makes the pod again when it is deleted, without harm."""
    return pod.owner is not None and pod.owner.word in KINDS


class WebhookLiveness:
    """For how long the webhook has answered without a gap."""

    def __init__(self, steady_after_s: float = STEADY_AFTER_S) -> None:
        self._steady_after_s = steady_after_s
        self._since = 0.0
        self._last = float("-inf")
        #: Counts the times that it fell silent, so that two stretches are not taken for one.
        self.stretch = 0
        self.is_proved = False

    def beat(self, now: float) -> None:
        """The webhook runs."""
        if now - self._last > SILENT_AFTER_S:
            self.stretch += 1
            self._since, self.is_proved = now, False
        self._last = now

    def asked(self, now: float) -> None:
        """The webhook was asked about a pod, by the API server."""
        self.beat(now)
        self.is_proved = True

    def is_steady(self, now: float) -> bool:
        """Whether it has answered for long enough, and still does."""
        return now - self._last <= SILENT_AFTER_S and now - self._since >= self._steady_after_s


class RecreateAttempts(msgspec.Struct, frozen=True):
    """What was done for one owner: how many tries, when last, and who waited at the last try."""

    count: int = 0
    at: float = float("-inf")
    known: frozenset[str] = frozenset()


NONE: Final = RecreateAttempts()


class RecreateBudget:
    """Who was replaced, how often and when."""

    def __init__(self, pulse: WebhookLiveness) -> None:
        self._pulse = pulse
        self._owners: dict[str, RecreateAttempts] = {}
        self._tried_in = 0

    def due(self, waiting: Iterable[Pod], now: float) -> list[Pod]:
        """The pods to replace now, of those that wait for it; they count as replaced."""
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
        """How many tries there were for this pod's owner."""
        return self._owners.get(pod.workload, NONE).count

    def _is_on_trial(self) -> bool:
        return not self._pulse.is_proved and self._tried_in == self._pulse.stretch

    def _next(self, pod: Pod, waiting: frozenset[str], now: float) -> RecreateAttempts | None:
        """The owner's tries with this pod replaced now; None where it may not be."""
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
