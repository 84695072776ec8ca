"""What a handler returns: changes of the state and actions for the I/O shells, as values."""

from __future__ import annotations

from typing import Final

from scheduler.model.actions import Action
from scheduler.state.event import Change

#: In the order in which they take effect.
Effects = tuple[Change | Action, ...]
NOTHING: Final[Effects] = ()
