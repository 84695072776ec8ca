"""What people hear of moves: events on the pod and its owner, a line in the log, a number.

Must never: repeat itself. A reason against a move holds for as long as the pod does, so it is told
once in the pod's life, whatever the recorder has forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import structlog

from scheduler.model.crd.migration import Migration, MigrationKind, profiles
from scheduler.model.crd.migration_blockers import BlockedBy, Blocker
from scheduler.model.crd.migration_result import MigrationResult
from scheduler.model.pod import Owner, Pod
from scheduler.state.migration.history import FAILURES_MAX

log = structlog.get_logger("moves")

_EVICTED: Final = {MigrationKind.RESTORE: "Restoring", MigrationKind.RESCUE: "Rescuing"}
_ARRIVED: Final = {MigrationKind.RESTORE: "Restored", MigrationKind.RESCUE: "Rescued"}


class EventSink(Protocol):
    """Who writes the events."""

    def note(
        self, pod: Pod, reason: str, text: str, kind: str = "Warning", decision_id: str = ""
    ) -> None:
        """Something the pod's author should know."""

    def note_owner(self, namespace: str, owner: Owner, reason: str, text: str) -> None:
        """Something the owner's author should know."""


class MigrationEvents:
    """Tells of moves; ``count`` takes the kind of move and what became of it."""

    def __init__(self, teller: EventSink, count: Callable[[str, str], None]) -> None:
        self._teller = teller
        self._count = count
        self._said: dict[str, set[Blocker | None]] = {}

    def knows(self, pod: Pod, obstacle: Blocker | None) -> bool:
        """Whether the pod's author was told already; None stands for a move that is possible."""
        return obstacle in self._said.get(pod.uid, ())

    def hindered(self, pod: Pod, move: MigrationKind, change: str, problem: BlockedBy) -> None:
        """The pod could have a better tier, and there is a reason not to move it."""
        if not problem.obstacle.is_told or self.knows(pod, problem.obstacle):
            return
        self._said.setdefault(pod.uid, set()).add(problem.obstacle)
        self._count(move.value, problem.obstacle.name.lower())
        log.info("pod is not moved", pod=pod.key, change=change, reason=problem.text)
        text = f"{change} is possible now, but the pod is not moved: {problem.text}"
        self._teller.note(pod, "NotMoved", text, "Normal")

    def possible(self, pod: Pod, move: MigrationKind, change: str) -> None:
        """The mode is to report: this is all that happens."""
        if self.knows(pod, None):
            return
        self._said.setdefault(pod.uid, set()).add(None)
        self._count(move.value, "reported")
        text = f"{change} is possible now; restore.mode is report, so the pod stays as it is"
        self._teller.note(pod, "MovePossible", text, "Normal")

    def evicted(self, ticket: Migration, pod: Pod | None) -> None:
        """The pod is on its way out, or gone already."""
        log.info("pod evicted", ticket=ticket.id, pod=ticket.pod_name, change=ticket.change)
        if pod is None:
            return
        has = "it runs with" if ticket.move is MigrationKind.RESTORE else "it waits for"
        text = (
            f"evicted so that {ticket.owner.kind} {ticket.owner.name} creates it again:"
            f" {profiles(ticket.target)} is free on node {ticket.node_name}, {has}"
            f" {profiles(ticket.source)} (ticket {ticket.id})"
        )
        self._teller.note(pod, _EVICTED[ticket.move], text, "Normal")

    def arrived(self, ticket: Migration, pod: Pod) -> None:
        """The replacement has what it was made for."""
        text = f"has {profiles(ticket.target)} in place of {profiles(ticket.source)}"
        self._teller.note(
            pod,
            _ARRIVED[ticket.move],
            f"{text} (ticket {ticket.id}, was {ticket.pod_name})",
            "Normal",
        )

    def ended(self, ticket: Migration, result: MigrationResult, text: str) -> None:
        """The move is over."""
        self._count(ticket.move.value, result.label)
        log.info("move ended", ticket=ticket.id, result=result.label, reason=text)
        if result is MigrationResult.DONE:
            return
        about = f"{ticket.move.value} of pod {ticket.pod_name} ({ticket.change})"
        self._teller.note_owner(
            ticket.namespace, ticket.told, "MoveEnded", f"{about} ended without effect: {text}"
        )
        if result.is_failure and ticket.attempt >= FAILURES_MAX:
            self._teller.note_owner(
                ticket.namespace,
                ticket.told,
                "LeftAlone",
                f"{ticket.attempt} moves in a row came back without their tier; no pod of this"
                " template is moved any more",
            )

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._said.pop(uid, None)
