"""The result of planning a gang."""

from __future__ import annotations

import msgspec

from scheduler.framework.decision import Placement, Rejection


class GangPlan(msgspec.Struct, frozen=True):
    """``placements`` are to be bound together; ``left`` are the members for which there is no room,
    and which the gang does not need.
    """

    placements: tuple[Placement, ...]
    left: tuple[Rejection, ...] = ()
