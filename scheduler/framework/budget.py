"""What one decision may cost, counted in checks of nodes and steps of searches, never in seconds.

So the answer depends on nothing but the state and the pod: the same state gives the same answer
on any machine, and when it is decided again. What a check costs depends on what the pod's author
wrote: a pod with 4,000 terms takes 4,000 times the steps of a pod with one.

Nothing that is only remembered makes it cheaper: what was asked before counts as if it was not.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from scheduler.model.pods.pod import Pod

#: Steps of one check; a pod that takes more is nobody's concern but its own. Its promise is not
#: looked for when others are admitted, and no node is asked whether a change there helps it.
LIGHT_MAX: Final = 128


class Budget:
    """The steps of one decision, or of one admission; at most ``limit``."""

    __slots__ = ("_counted", "limit", "spent")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spent = 0
        self._counted: set[Hashable] | None = None  # most decisions need none

    @property
    def is_over(self) -> bool:
        """Whether more was spent than is allowed."""
        return self.spent > self.limit

    def spend(self, steps: int) -> bool:
        """Count steps; whether the limit still holds."""
        self.spent += steps
        return self.spent <= self.limit

    def once(self, what: Hashable, steps: int) -> bool:
        """The same for something that is not done again within this decision."""
        if self._counted is None:
            self._counted = {what}
        elif what in self._counted:
            return self.spent <= self.limit
        else:
            self._counted.add(what)
        self.spent += steps
        return self.spent <= self.limit


def is_light(pod: Pod) -> bool:
    """Whether checking the pod on one node takes so little that others may be asked to."""
    return pod.label_steps + pod.node_steps <= LIGHT_MAX
