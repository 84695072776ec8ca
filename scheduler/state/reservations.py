"""Reservations: tiers granted at admission to pods that are not placed yet.

::

    create --> pending --the pod is created--> matched --bound, deleted or ended--> over
               '--10 s without its pod--> over
                                         '--60 s without a condition of another scheduler--> over

A reservation only affects the choice of tiers at admission; it never blocks a Binding. It is
matched to its pod by the annotation ``gpu-scheduler.io/reservation``; without the annotation by
namespace, name or owner, and request, oldest first.

After a restart the reservations of pending pods are restored from their annotations, so a crash
reserves nothing twice. Any author can write that annotation where the webhook is not called. So it
counts only in the format of our ids, on pods for which the webhook is called, and within the limits
per namespace and in total. A pod of another scheduler needs a condition ``PodScheduled``, which
authors of pods cannot write.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.model import well_known
from scheduler.model.admission import ResourceRewrite
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.namespaces import NamespaceStore
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.reservation_limits import has_condition, have_room, is_credible
from scheduler.state.webhook_scope import WebhookScope

PENDING_MAX_S = 10.0
#: Maximum time until another scheduler writes a condition on its pod.
CONDITION_WAIT_MAX_S = 60.0
RETRY_AFTER_S = 1.0
#: A pod that takes this many times longer to be created than recent ones was rejected.
LATENCY_FACTOR = 4.0
LATENCY_HALVES_S = 10.0
DRY_RUNS_MAX = 256


class Reservation(msgspec.Struct):
    """One reserved tier. ``pod`` is the pod as admitted (its uid is the reservation's until
    matched).
    """

    id: str
    pod: Pod
    node_name: str
    made_at: float
    is_annotated: bool
    rewrites: tuple[ResourceRewrite, ...] = ()
    is_matched: bool = False
    is_restored: bool = False
    no_condition_since: float | None = None


class Reservations:
    """All open reservations."""

    name = "reservations"
    handles = (ev.PodUpdated, ev.PodDeleted, ev.PodsReplaced)

    def __init__(
        self,
        reach: WebhookScope | None = None,
        namespaces: NamespaceStore | None = None,
    ) -> None:
        self._reach = reach or WebhookScope()
        self._namespaces = namespaces or NamespaceStore("none")
        self._all: dict[str, Reservation] = {}
        self._by_uid: dict[str, str] = {}
        #: Of dry runs: they reserve nothing, and only identify the second call.
        self._dry_runs: dict[str, Reservation] = {}
        self._slowest_s = 0.0
        self._slowest_at = 0.0

    def __len__(self) -> int:
        return len(self._all)

    def pending(self) -> list[Reservation]:
        """Reservations whose pod is not created yet, oldest first."""
        return [reservation for reservation in self._all.values() if not reservation.is_matched]

    def has_room(self, pod: Pod) -> bool:
        """Whether the limits allow a reservation for this pod.

        Any client that reaches the webhook can post a review.
        """
        return have_room(pod, self.pending())

    def known(self, namespace: str, reservation_id: str) -> Reservation | None:
        """The reservation with the id on a pod under review, if it was made for its namespace."""
        reservation = self._all.get(reservation_id) or self._dry_runs.get(reservation_id)
        if reservation is None or reservation.is_matched or reservation.pod.namespace != namespace:
            return None
        return reservation

    def dry_run(
        self, reservation_id: str, pod: Pod, now: float, rewrites: tuple[ResourceRewrite, ...]
    ) -> None:
        """Store the answer of a dry run, for the API server's second call."""
        while len(self._dry_runs) >= DRY_RUNS_MAX:
            del self._dry_runs[next(iter(self._dry_runs))]
        self._dry_runs[reservation_id] = Reservation(reservation_id, pod, "", now, True, rewrites)

    def create(
        self,
        reservation_id: str,
        pod: Pod,
        node_name: str,
        now: float,
        *,
        is_annotated: bool,
        rewrites: tuple[ResourceRewrite, ...] = (),
    ) -> Reservation:
        """Reserve a tier; a retry of the owner releases its oldest pending reservation."""
        retried = self.retried(pod, now)
        if retried is not None:
            del self._all[retried.id]
        tagged = msgspec.structs.replace(pod, uid=reservation_id)
        reservation = Reservation(reservation_id, tagged, node_name, now, is_annotated, rewrites)
        self._all[reservation_id] = reservation
        return reservation

    def retried(self, pod: Pod, now: float) -> Reservation | None:
        """The owner's oldest pending reservation, if this pod is a retry of its controller.

        A full quota rejects the pod after its admission. The retry must neither accumulate
        reservations nor be degraded by the former one. But on a slow API server the former pod may
        still be created, and its slice must not be reserved for a sibling.
        """
        if pod.owner is None:
            return None
        patience_s = max(RETRY_AFTER_S, LATENCY_FACTOR * self._latency_s(now))
        late = (p for p in self.pending() if now - p.made_at > patience_s)
        return next((p for p in late if p.pod.workload == pod.workload), None)

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Fold events of pods; there are no other effects."""
        match event:
            case ev.PodUpdated(pod):
                self.upsert_pod(pod, now)
            case ev.PodDeleted(uid):
                self.end(uid)
            case ev.PodsReplaced(pods):
                self.replace(pod.uid for pod in pods)
                for pod in pods:
                    self.upsert_pod(pod)
        return NOTHING

    def upsert_pod(self, pod: Pod, now: float | None = None) -> None:
        """Fold a pod from the watch: it matches its reservation, or ends it."""
        pending = not pod.node_name and not pod.is_terminal and not pod.is_deleting
        if not pending:
            self.end(pod.uid)
            return
        if pod.uid in self._by_uid:
            self._all[self._by_uid[pod.uid]].pod = pod
            return
        reservation = self._reservation_of(pod)
        if reservation is not None:
            if now is not None and reservation.made_at:
                self._slowest_s = max(self._latency_s(now), now - reservation.made_at)
                self._slowest_at = now
            reservation.is_matched = True
            reservation.pod = pod
            self._by_uid[pod.uid] = reservation.id

    def end(self, uid: str) -> None:
        """The pod is bound, deleted or finished: its reservation ends."""
        reservation_id = self._by_uid.pop(uid, None)
        if reservation_id is not None:
            self._all.pop(reservation_id, None)

    def expire(self, now: float) -> int:
        """Drop expired reservations (no pod in time, or no condition of its scheduler); returns how
        many.
        """
        for dry_run in [e for e in self._dry_runs.values() if now - e.made_at >= PENDING_MAX_S]:
            del self._dry_runs[dry_run.id]
        late = [p.id for p in self.pending() if now - p.made_at >= PENDING_MAX_S]
        for reservation_id in late:
            del self._all[reservation_id]
        without_condition = [
            p.pod.uid for p in self._all.values() if p.is_matched and self._is_late(p, now)
        ]
        for uid in without_condition:
            self.end(uid)
        return len(late) + len(without_condition)

    def _is_late(self, reservation: Reservation, now: float) -> bool:
        """Whether another scheduler has not written a condition on its pod in time."""
        if reservation.pod.scheduler_name == self._reach.scheduler_name or has_condition(
            reservation.pod
        ):
            reservation.no_condition_since = None
            return False
        if reservation.no_condition_since is None:
            reservation.no_condition_since = now
        return now - reservation.no_condition_since >= CONDITION_WAIT_MAX_S

    def cancel(self, migration_id: str) -> None:
        """A migration ended: an admitted replacement that was not created will not be."""
        for reservation in self.pending():
            if reservation.pod.annotations.get(well_known.MIGRATION) == migration_id:
                del self._all[reservation.id]

    def replace(self, uids: Iterable[str]) -> None:
        """After a relist: end the reservations of pods that do not exist any more."""
        alive = set(uids)
        for uid in [uid for uid in self._by_uid if uid not in alive]:
            self.end(uid)

    def holders(self, priority: int) -> list[Reservation]:
        """Reservations that a new pod of this priority must respect, strongest first."""
        strong = [p for p in self._all.values() if p.pod.priority >= priority]
        return sorted(strong, key=lambda p: (-p.pod.priority, p.made_at))

    def others(self, pod: Pod, now: float) -> list[Reservation]:
        """The same without the reservation of the pod's own earlier attempt."""
        retried = self.retried(pod, now)
        return [
            reservation for reservation in self.holders(pod.priority) if reservation is not retried
        ]

    def _latency_s(self, now: float) -> float:
        """The largest recent time from a reservation to the creation of its pod."""
        return float(self._slowest_s * 0.5 ** ((now - self._slowest_at) / LATENCY_HALVES_S))

    def _reservation_of(self, pod: Pod) -> Reservation | None:
        tag = pod.annotations.get(well_known.RESERVATION)
        if tag is None:
            return next((p for p in self.pending() if not p.is_annotated and _fits(p, pod)), None)
        reservation = self._all.get(tag)
        if reservation is None:
            return self._restored(tag, pod)
        usable = not reservation.is_matched and reservation.pod.namespace == pod.namespace
        return reservation if usable else None

    def _restored(self, tag: str, pod: Pod) -> Reservation | None:
        """The reservation that an earlier process made for a pod, if it is credible."""
        known = [reservation for reservation in self._all.values() if reservation.is_restored]
        if not is_credible(tag, pod, self._namespaces.of(pod.namespace), self._reach):
            return None
        if not have_room(pod, known):
            return None
        reservation = self._all[tag] = Reservation(tag, pod, "", 0.0, True, is_restored=True)
        return reservation


def _fits(reservation: Reservation, pod: Pod) -> bool:
    awaited = reservation.pod
    if awaited.namespace != pod.namespace or awaited.gpu_requests != pod.gpu_requests:
        return False
    if awaited.name and awaited.name == pod.name:
        return True
    return awaited.owner is not None and awaited.workload == pod.workload
