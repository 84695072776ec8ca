"""The course of every open move, from its ticket to its end.

::

    begin --write--> WRITTEN --evict--> LEAVING, AWAITED --> ADMITTED --> ARRIVED --> end
                        |                      |                |
                        '---- owner says no ---'-- deadline ----'--> end without effect

What is done next follows from API objects alone (``state/tickets``); what is remembered here only
spares a question or a repetition. So whoever leads after a crash goes on where it finds a ticket.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from scheduler.decide import safety
from scheduler.decide.restore import Wish, ticket_of
from scheduler.endings import REPEAT_AFTER_S, Endings
from scheduler.model.errand import Errand, Evict, Write, ask_about, ask_for
from scheduler.model.moveend import End, Result
from scheduler.model.obstacle import Facts
from scheduler.model.pod import Pod
from scheduler.model.ticket import Move, Ticket, holder, profiles
from scheduler.report.moved import Moved
from scheduler.state import event as ev
from scheduler.state.cluster import Cluster
from scheduler.state.history import History
from scheduler.state.tickets import Stage, Tickets

ASK_EVERY_S: Final = 5.0
TRIES_MAX: Final = 3

log = structlog.get_logger("moves")


class Progress(msgspec.Struct):
    """What this process did for a ticket."""

    facts: Facts | None = None
    asked_at: float = float("-inf")
    sent_at: float = float("-inf")
    tries: int = 0
    is_evicted: bool = False
    victim: Pod | None = None


class Course:
    """Takes every open move as far as it can go."""

    def __init__(
        self,
        cluster: Cluster,
        history: History,
        moved: Moved,
        send: Callable[[Errand], None],
        fresh: Callable[[], str],
    ) -> None:
        self.tickets = Tickets(cluster.scheduler_name)
        self._cluster = cluster
        self._history = history
        self._moved = moved
        self._send = send
        self._fresh = fresh
        self.endings = Endings(history, send)
        self._progress: dict[str, Progress] = {}

    def begin(self, wish: Wish, facts: Facts, now: float) -> None:
        """Write the ticket of a move that is safe."""
        pod = wish.pod
        attempt = self._history.attempt(pod.workload, pod.revision)
        ticket = ticket_of(wish, facts, attempt, self._fresh(), now)
        self.tickets.assume(ticket)
        self._progress[ticket.id] = Progress(facts=facts, sent_at=now)
        self._cluster.nominations.hold(holder(ticket))
        log.info("move begins", ticket=ticket.id, pod=pod.key, change=ticket.change)
        self._send(Write(ticket))

    def evicted(self) -> frozenset[str]:
        """Tickets whose eviction was sent, whatever the watch shows."""
        return frozenset(name for name, one in self._progress.items() if one.tries)

    # --- what happens ------------------------------------------------------------------------

    def seen(self, ticket: Ticket, now: float) -> None:
        """The watch shows a ticket."""
        if self.tickets.see(ticket):
            self._history.began(ticket, now)
        self._hold(ticket)

    def vanished(self, ticket_id: str, now: float) -> list[ev.Change]:
        """The ticket is gone: what came of it is remembered on every replica."""
        ticket = self.tickets.get(ticket_id)
        if ticket is None:
            self.endings.lose(ticket_id)
            return []
        end = self.endings.said(ticket_id)
        failure = end.result.is_failure if end is not None else self._is_failure(ticket)
        self._history.ended(ticket, now, is_failure=failure)
        return self._lose(ticket)

    def over(self, ticket: Ticket) -> list[ev.Change]:
        """The watch shows a ticket that says how it ended."""
        return self._lose(ticket) if self.endings.see(ticket) else []

    def _lose(self, ticket: Ticket) -> list[ev.Change]:
        self._progress.pop(ticket.id, None)
        self.tickets.lose(ticket.id)
        return self._release(ticket)

    def unwritten(self, ticket_id: str, message: str, now: float) -> list[ev.Change]:
        """The API server refused the ticket."""
        ticket = self.tickets.get(ticket_id)
        if ticket is None or self.tickets.is_seen(ticket_id):
            return []
        self._moved.ended(ticket, Result.UNWRITTEN, message)
        return self.vanished(ticket_id, now)

    def told(self, news: ev.OwnerTold, now: float) -> list[ev.Change]:
        """What the owner of an open ticket says now."""
        ticket = self.tickets.get(news.ticket_id)
        if ticket is None or news.facts is None:
            return []
        stage = self.tickets.stage(ticket, self._cluster.pods)
        if stage in (Stage.LEAVING, Stage.AWAITED):
            problem = safety.not_made_again(ticket, news.facts)
            return self._end(ticket, Result.HINDERED, problem.text, now) if problem else []
        pod = self._cluster.pods.get(ticket.pod_uid)
        if stage is Stage.WRITTEN and pod is not None:
            problem = safety.verdict(pod, ticket.move, news.facts)
            if problem is not None:
                return self._end(ticket, Result.HINDERED, problem.text, now)
            self._at(ticket).facts = news.facts
        return self.step(ticket, now)

    def eviction_ended(self, news: ev.EvictionEnded, now: float) -> list[ev.Change]:
        """The API server's answer to an eviction."""
        ticket = self.tickets.get(news.ticket_id)
        if ticket is None:
            return []
        progress = self._at(ticket)
        pod = self._cluster.pods.get(ticket.pod_uid)
        match news.result:
            case ev.Eviction.EVICTED:
                progress.is_evicted = True
                # By its answer the watch may have shown the end of the pod.
                self._moved.evicted(ticket, pod or progress.victim)
            case ev.Eviction.FORBIDDEN:
                progress.tries = 0
                return self._end(ticket, Result.FORBIDDEN, news.message, now)
            case ev.Eviction.GONE:
                progress.tries = 0
                if pod is not None and not pod.is_deleting:
                    return self._end(ticket, Result.POD_CHANGED, "the pod changed meanwhile", now)
            case ev.Eviction.FAILED:
                log.warning("eviction failed", ticket=ticket.id, problem=news.message)
                progress.facts = None  # by the next try they are old
                if progress.tries >= TRIES_MAX:
                    return self._end(ticket, Result.REFUSED, news.message, now)
        return []

    # --- what is done ------------------------------------------------------------------------

    def step(self, ticket: Ticket, now: float) -> list[ev.Change]:
        """Do what comes next for one ticket, if anything does."""
        progress = self._at(ticket)
        self._hold(ticket)
        if self.endings.said(ticket.id) is not None:
            self.endings.repeat(ticket, now)
            return []
        stage = self.tickets.stage(ticket, self._cluster.pods)
        if stage is Stage.ARRIVED:
            return self._arrived(ticket, now)
        if now >= ticket.deadline:
            return self._end(ticket, Result.EXPIRED, "its replacement was not placed in time", now)
        if stage is Stage.WRITTEN:
            return self._before_eviction(ticket, progress, now)
        if stage is not Stage.ADMITTED and now - progress.asked_at >= ASK_EVERY_S:
            progress.asked_at = now
            self._send(ask_for(ticket))
        return []

    def _before_eviction(self, ticket: Ticket, progress: Progress, now: float) -> list[ev.Change]:
        pod = self._cluster.pods[ticket.pod_uid]
        if not self.tickets.is_seen(ticket.id):
            is_lost = now - progress.sent_at >= REPEAT_AFTER_S
            return self.unwritten(ticket.id, "no answer", now) if is_lost else []
        if ticket.move is Move.RESCUE and (pod.node_name or pod.uid in self._cluster.assumed):
            return self._end(ticket, Result.POD_CHANGED, "the pod found a node by itself", now)
        if progress.is_evicted or (progress.tries and now - progress.sent_at < REPEAT_AFTER_S):
            return []
        if progress.facts is None:
            if now - progress.asked_at >= ASK_EVERY_S:
                progress.asked_at = now
                self._send(ask_about(pod, ticket.revision, ticket.index, ticket.id))
            return []
        progress.victim = pod
        progress.tries += 1
        progress.sent_at = now
        version = progress.facts.version if ticket.move is Move.RESCUE else ""
        self._send(Evict(ticket, version))
        return []

    def _arrived(self, ticket: Ticket, now: float) -> list[ev.Change]:
        pod = self.tickets.taker(ticket)
        assert pod is not None, "somebody arrived"
        if pod.gpu_requests != ticket.target:
            got = f"its replacement has {profiles(pod.gpu_requests)}"
            return self._end(ticket, Result.WITHOUT_TIER, got, now)
        self._moved.arrived(ticket, pod)
        return self._end(ticket, Result.DONE, "", now)

    def _end(self, ticket: Ticket, result: Result, text: str, now: float) -> list[ev.Change]:
        self._moved.ended(ticket, result, text)
        self.endings.say(ticket, End(result, now, text))
        return self._release(ticket)

    def _is_failure(self, ticket: Ticket) -> bool | None:
        """What another replica's move came to, as far as can be seen."""
        stage = self.tickets.stage(ticket, self._cluster.pods)
        if stage is Stage.ARRIVED:
            pod = self.tickets.taker(ticket)
            return pod is not None and pod.gpu_requests != ticket.target
        return True if stage is Stage.ADMITTED else None

    # --- what is held ------------------------------------------------------------------------

    def _hold(self, ticket: Ticket) -> None:
        taker = self.tickets.taker(ticket)
        is_bound = taker is not None and bool(taker.node_name)
        if is_bound or self.endings.said(ticket.id) is not None:
            self._cluster.nominations.release(ticket.id)
        elif taker is None or taker.uid not in self._cluster.assumed:
            self._cluster.nominations.hold(holder(ticket))

    def _release(self, ticket: Ticket) -> list[ev.Change]:
        if not self._cluster.nominations.release(ticket.id):
            return []
        return [self._cluster.freed(ticket.node_name, frozenset(ticket.requests))]

    def _at(self, ticket: Ticket) -> Progress:
        return self._progress.setdefault(ticket.id, Progress())
