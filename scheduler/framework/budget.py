"""The step limit of one decision, in node checks and search steps, never in seconds.

So the answer depends only on the state and the pod: it is the same on any machine and at every
repetition. The steps of a check depend on the pod: a pod with 4,000 terms takes 4,000 times the
steps of a pod with one.

Caches do not reduce the count: a cached result costs the same steps as a computed one.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from scheduler.model.pods.pod import Pod

#: Steps of one check. A pod that takes more is excluded from optional checks: admissions of other
#: pods do not place its reservation, and node changes do not requeue it early.
LIGHT_MAX: Final = 128
#: Steps of reading the pods that one term of a pod counts. The first decision compares them.
TERM_STEPS: Final = 16


class Budget:
    """The steps of one decision or admission; at most ``limit``."""

    __slots__ = ("_counted", "limit", "spent")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.spent = 0
        self._counted: set[Hashable] | None = None  # most decisions do not use it

    @property
    def is_over(self) -> bool:
        """Whether the limit is exceeded."""
        return self.spent > self.limit

    @property
    def left(self) -> int:
        """The steps that may still be spent."""
        return max(0, self.limit - self.spent)

    @property
    def is_spent(self) -> bool:
        """Whether no step is left."""
        return self.spent >= self.limit

    def spend(self, steps: int) -> bool:
        """Count steps; returns whether the limit still holds."""
        self.spent += steps
        return self.spent <= self.limit

    def spend_once(self, what: Hashable, steps: int) -> bool:
        """The same for a step that is counted once per decision."""
        if self._counted is None:
            self._counted = {what}
        elif what in self._counted:
            return self.spent <= self.limit
        else:
            self._counted.add(what)
        self.spent += steps
        return self.spent <= self.limit


class SearchBudget(Budget):
    """The steps of a search that reports how far it came: it did ``done`` of ``total`` parts."""

    __slots__ = ("done", "total")

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.done = 0
        self.total = 0

    @property
    def is_complete(self) -> bool:
        """Whether no part was left out."""
        return self.done == self.total

    def part(self, steps: int, *, is_done: bool = True) -> int:
        """Count a part and its steps; returns the steps."""
        self.spend(steps)
        self.done += is_done
        self.total += 1
        return steps

    def leave_out(self, parts: int) -> None:
        """Count parts for which no steps are left."""
        self.total += parts


def is_light(pod: Pod) -> bool:
    """Whether checking the pod on one node takes few steps, so that optional checks include it."""
    return pod.label_steps + pod.node_steps <= LIGHT_MAX
