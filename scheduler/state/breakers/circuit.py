"""The circuit breaker of one scope of one node: counts rejections and limits the pods in flight.

A rejection counts for ten minutes, whatever succeeds in between: a working GPU says nothing about a
broken one beside it. While rejections count, the number of pods in flight is limited to the
remaining ones, so that even simultaneous rejections stay below the maximum.

Admissions after a rejection narrow the scope: an admission of a smaller request, or of another
workload if all rejections are of one workload or one equivalence class. One rejection is left for
the pods outside the narrowed scope. If it is used up while such pods are admitted, the node stays
open for them, one at a time, until one more is rejected: a fifth in the window.
"""

from __future__ import annotations

from collections import deque
from typing import Annotated

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.state.breakers.kubelet_rejection import AT_LEAST, RejectionScope, largest_request

#: Maximum number of failed pods in a window; the first rejection starts the window. One more fails
#: only where pods outside the narrowed scope were admitted.
REJECTIONS_MAX = 4
#: Rejections after which the circuit opens. One is enough if the node states what it rejects.
TRIP_AFTER = 3
ADMISSIONS_MAX = 16


class Timings(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Seconds; a section of the configuration file.

    A rejection counts for ``window_s``. A rejecting node is avoided for ``pause_first_s``, then
    twice as long each time, up to ``pause_max_s``. After ``calm_s`` without rejections the circuit
    is reset.
    """

    window_s: Annotated[float, msgspec.Meta(ge=1.0)] = 600.0
    pause_first_s: Annotated[float, msgspec.Meta(ge=1.0)] = 30.0
    pause_max_s: Annotated[float, msgspec.Meta(ge=1.0)] = 1800.0
    calm_s: Annotated[float, msgspec.Meta(ge=1.0)] = 3600.0


class RejectedPod(msgspec.Struct, frozen=True):
    """A rejected pod; ``at`` is in monotonic seconds."""

    at: float
    class_id: str
    workload: str
    amount: int


class AdmittedPod(msgspec.Struct, frozen=True):
    """The last admitted pod of its equivalence class."""

    at: float
    class_id: str
    workload: str
    amount: int


class Circuit:
    """Closed, open until ``until``, or half open (one pod tries)."""

    def __init__(self, scope: str, is_stated: bool, timings: Timings) -> None:
        self.scope = scope
        self.trips = 0
        self.until = 0.0
        self.is_open = False
        self._is_trying = False
        self._one_more_from = 0.0
        self._timings = timings
        self._trip_after = 1 if is_stated else TRIP_AFTER
        self._rejected: deque[RejectedPod] = deque(maxlen=REJECTIONS_MAX)
        self._admitted: dict[str, AdmittedPod] = {}

    def counted(self, now: float) -> int:
        """Number of counted rejections, at most ``REJECTIONS_MAX``."""
        return sum(1 for one in self._rejected if now - one.at < self._timings.window_s)

    def last(self) -> float:
        """The time of the last rejection or admission."""
        return max((self.until, *(one.at for one in self._rejected)))

    def of_class(self, class_id: str) -> list[RejectedPod]:
        """The rejections of one equivalence class."""
        return [one for one in self._rejected if one.class_id == class_id]

    def record_rejection(self, one: RejectedPod, now: float) -> float | None:
        """Count a rejection; returns the backoff if it opens the circuit."""
        if self.counted(now) == REJECTIONS_MAX and self._is_spared(one):
            self._one_more_from = now + self._timings.window_s
        at = max(one.at, self._rejected[-1].at) if self._rejected else one.at
        self._rejected.append(msgspec.structs.replace(one, at=at))
        if self.is_open:
            self.until = max(self.until, self._room_at(now))
            return None
        if self.counted(now) < self._trip_after and not self.trips:
            return None
        timings = self._timings
        pause_s = min(timings.pause_max_s, timings.pause_first_s * 2 ** min(self.trips, 10))
        self.until = max(now + pause_s, self._room_at(now))
        self.trips, self.is_open, self._is_trying = self.trips + 1, True, False
        return self.until - now

    def copy(self, rejected_pod: list[RejectedPod]) -> None:
        """Start with the rejections of another circuit."""
        self._rejected.extend(rejected_pod)

    def record_admission(self, pod: Pod, now: float) -> None:
        """The kubelet admitted a pod of the scope."""
        self._admitted.pop(pod.class_id, None)
        self._admitted[pod.class_id] = AdmittedPod(
            now, pod.class_id, pod.workload, largest_request(pod, self.scope) or 1
        )
        if len(self._admitted) > ADMISSIONS_MAX:
            del self._admitted[next(iter(self._admitted))]
        if self.is_open or self._amount(pod) < self._least():
            return
        self._is_trying = False
        if not self._blamed():  # otherwise the admission proves nothing about the rejected classes
            self.trips = max(0, self.trips - 1)

    def pass_time(self, now: float) -> bool:
        """Advance the time; returns whether a backoff ended."""
        if not self.is_open or now < self.until:
            return False
        self.is_open, self._is_trying = False, True
        return True

    def is_forgotten(self, now: float) -> bool:
        """Whether the circuit has no effect any more."""
        return not self.is_open and now - self.last() >= self._timings.calm_s

    def closes(self, now: float) -> frozenset[str]:
        """The scopes that an open circuit closes: as few as the rejections and admissions allow."""
        if not self._is_of_resource:
            return frozenset((self.scope,))
        classes = self._blamed()
        if classes:
            return classes
        least = self._least()
        if least > 1 and (self.counted(now) < REJECTIONS_MAX or self._smaller(least)):
            return frozenset((f"{self.scope}{AT_LEAST}{least}",))
        return frozenset((self.scope,))

    def limits(self, in_flight: int, now: float) -> frozenset[str]:
        """The scopes that no other pod may enter while the pods in flight may be rejected."""
        counted = self.counted(now)
        possible = counted + in_flight
        if not possible:
            return frozenset()
        spares = self._spares_some(now)
        room = REJECTIONS_MAX - counted
        if spares and now >= self._one_more_from:
            room = max(1, room)
        if in_flight >= (min(1, room) if self._is_trying else room):
            return frozenset((self.scope,))
        # One rejection is left for the pods outside.
        return self.closes(now) if spares and possible >= REJECTIONS_MAX - 1 else frozenset()

    # --- evidence ----------------------------------------------------------------------------

    @property
    def _is_of_resource(self) -> bool:
        return "/" in self.scope and not self.scope.startswith("kind/") and "=" not in self.scope

    def _blamed(self) -> frozenset[str]:
        """The classes that are rejected while other pods of the scope are admitted."""
        classes = {one.class_id for one in self._rejected}
        workloads = {one.workload for one in self._rejected}
        admitted, least = self._admitted_since(), self._least()
        if len(classes) > 1 and len(workloads) > 1:
            return frozenset()
        if any(one.class_id in classes for one in admitted):
            return frozenset()
        others = any(one.workload not in workloads and one.amount >= least for one in admitted)
        return frozenset(classes) if others else frozenset()

    def _is_spared(self, one: RejectedPod) -> bool:
        """Whether a pod is outside the scopes that the evidence blames."""
        classes = self._blamed()
        return one.class_id not in classes if classes else one.amount < self._least()

    def _smaller(self, least: int) -> bool:
        """Whether smaller requests were admitted after the rejections."""
        return any(one.amount < least for one in self._admitted_since())

    def _admitted_since(self) -> list[AdmittedPod]:
        """The admissions after the first counted rejection."""
        first = self._rejected[0].at if self._rejected else 0.0
        return [one for one in self._admitted.values() if one.at >= first]

    def _least(self) -> int:
        return min((one.amount for one in self._rejected), default=0)

    def _amount(self, pod: Pod) -> int:
        return largest_request(pod, self.scope) if self._is_of_resource else self._least()

    def _spares_some(self, now: float) -> bool:
        return self._is_of_resource and self.closes(now) != {self.scope}

    def _room_at(self, now: float) -> float:
        """When another pod may be rejected; one rejection is left for other classes."""
        most = REJECTIONS_MAX - 1 if self._spares_some(now) else REJECTIONS_MAX
        if self.counted(now) < most:
            return now
        return self._rejected[-most].at + self._timings.window_s


def rejected_pod(pod: Pod, what: RejectionScope, at: float) -> RejectedPod:
    """The record of a rejection."""
    return RejectedPod(at, pod.class_id, pod.workload, what.amount)
