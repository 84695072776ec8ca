"""The open tickets, as the watch shows them, and what became of each. Pure.

Where a move stands is derived from API objects, so that a crash at any point leaves nothing to
remember::

    WRITTEN   its pod lives                                      next: evict it
    LEAVING   its pod is being deleted                           next: wait
    AWAITED   its pod is gone, and no pod names the ticket yet   next: wait
    ADMITTED  a pod that names the ticket waits for its node     next: wait
    ARRIVED   that pod has a node                                next: end the ticket

A ticket that was just sent counts before the watch shows it, as a placement does (*assumed*), so
that what it waits for is given to nobody else; it is acted on only once it was seen.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator, Mapping

from scheduler.model import well_known
from scheduler.model.crd.migration import Migration, WorkloadMatch, match_of
from scheduler.model.pod import Pod


class MigrationPhase(enum.Enum):
    """Where a move stands."""

    WRITTEN = "written"
    LEAVING = "leaving"
    AWAITED = "awaited"
    ADMITTED = "admitted"
    ARRIVED = "arrived"


class OpenMigrations:
    """Every ticket that is not over; only pods of ``scheduler_name`` take one."""

    def __init__(self, scheduler_name: str = well_known.SCHEDULER_NAME) -> None:
        self._scheduler_name = scheduler_name
        self._open: dict[str, Migration] = {}
        self._assumed: set[str] = set()
        #: By what a pod says that it took and what it may take: the ticket decides which is true.
        self._takers: dict[tuple[str, WorkloadMatch], Pod] = {}
        self._claims: dict[str, tuple[str, WorkloadMatch]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Migration]:
        """Oldest first."""
        return iter(sorted(self._open.values(), key=lambda one: (one.made_at, one.id)))

    def get(self, ticket_id: str) -> Migration | None:
        """One open ticket."""
        return self._open.get(ticket_id)

    def is_seen(self, ticket_id: str) -> bool:
        """Whether our own watch has shown it."""
        return ticket_id in self._open and ticket_id not in self._assumed

    # --- tickets -----------------------------------------------------------------------------

    def assume(self, ticket: Migration) -> None:
        """Count a ticket that is being sent."""
        self._open[ticket.id] = ticket
        self._assumed.add(ticket.id)

    def upsert(self, ticket: Migration) -> bool:
        """Fold a ticket's newest state; whether it is new to us."""
        is_new = not self.is_seen(ticket.id)
        self._open[ticket.id] = ticket
        self._assumed.discard(ticket.id)
        return is_new

    def delete(self, ticket_id: str) -> Migration | None:
        """The ticket is over, or was never stored."""
        self._assumed.discard(ticket_id)
        return self._open.pop(ticket_id, None)

    # --- the pods that take them -------------------------------------------------------------

    def upsert_pod(self, pod: Pod) -> None:
        """A pod may name the ticket that it took; of two that may, the first one counts."""
        self.delete_pod(pod.uid)
        ticket_id = pod.annotations.get(well_known.MOVE)
        if ticket_id is None or pod.scheduler_name != self._scheduler_name:
            return
        match = match_of(pod)
        if match is not None and (ticket_id, match) not in self._takers:
            self._takers[ticket_id, match] = pod
            self._claims[pod.uid] = ticket_id, match

    def delete_pod(self, uid: str) -> None:
        """A pod that took a ticket is gone: another one may take it."""
        claim = self._claims.pop(uid, None)
        if claim is not None:
            del self._takers[claim]

    def taker(self, ticket: Migration) -> Pod | None:
        """The pod that took a ticket. A pod that only claims to is none."""
        pod = self._takers.get((ticket.id, ticket.match))
        return None if pod is None or pod.uid == ticket.pod_uid else pod

    # --- reading -----------------------------------------------------------------------------

    def stage(self, ticket: Migration, pods: Mapping[str, Pod]) -> MigrationPhase:
        """Where a move stands, as far as the watches know."""
        taker = self.taker(ticket)
        if taker is not None and not taker.is_deleting:
            return MigrationPhase.ARRIVED if taker.node_name else MigrationPhase.ADMITTED
        pod = pods.get(ticket.pod_uid)
        if pod is None:
            return MigrationPhase.AWAITED
        return MigrationPhase.LEAVING if pod.is_deleting else MigrationPhase.WRITTEN

    def for_newcomer(
        self, pod: Pod, pods: Mapping[str, Pod], evicted: Collection[str]
    ) -> Migration | None:
        """The oldest ticket that a pod at admission may take: its replacement is due.

        ``evicted`` are tickets whose eviction was sent, which the watch may not show yet. A ticket
        is taken once its pod has appeared: until then a quota may have refused that pod, and its
        controller tries again within milliseconds.
        """
        match = match_of(pod)
        for ticket in self:
            stage = self.stage(ticket, pods)
            is_due = stage in (MigrationPhase.LEAVING, MigrationPhase.AWAITED) or (
                stage is MigrationPhase.WRITTEN and ticket.id in evicted
            )
            if is_due and ticket.match == match:
                return ticket
        return None

    def of_workload(self, workload: str) -> Migration | None:
        """The open ticket of a workload, if there is one."""
        return next((one for one in self._open.values() if one.workload == workload), None)
