"""What the loop calls: event handlers for the events that concern them, tickers once a second.

``controllers/table`` has both tables in their order.
"""

from __future__ import annotations

from typing import Protocol

from scheduler.state import event as ev
from scheduler.state.effects import Effects


class EventHandler(Protocol):
    """Reads an event, changes the state that it owns, and returns the rest as effects."""

    @property
    def name(self) -> str:
        """The name in the log line of an internal error."""

    @property
    def handles(self) -> tuple[type, ...]:
        """The types of the events that can change its state or have effects."""

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Handle one event; ``now`` is the loop's clock."""


class Ticker(Protocol):
    """Does what becomes due as time passes."""

    @property
    def name(self) -> str:
        """The name in the log line of an internal error."""

    def tick(self, now: float, *, leads: bool) -> Effects:
        """A second has passed; ``leads`` says whether this process may decide and send."""
