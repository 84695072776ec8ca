"""What preemption reads beside pods and nodes: disruption budgets, and what preemptors did. Pure.

One round of a preemptor::

    decided --begin--> its victims are being deleted --end--> it waits for their end, and is tried
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scheduler.model.disruption_budget import DisruptionBudget

#: So many rounds of one preemptor within ``ROUNDS_S``, whatever becomes of them.
ROUNDS_MAX: Final = 5
ROUNDS_S: Final = 600.0


class Preemptions:
    """Disruption budgets by namespace and name; preemptors by uid."""

    def __init__(self) -> None:
        self.budgets: dict[tuple[str, str], DisruptionBudget] = {}
        #: Victims whose deletion the API server has not answered yet, by preemptor.
        self.running: dict[str, frozenset[str]] = {}
        #: When each preemptor began its last rounds (the loop's clock).
        self._rounds: dict[str, tuple[float, ...]] = {}

    # --- budgets -----------------------------------------------------------------------------

    def upsert_budget(self, budget: DisruptionBudget) -> None:
        """A budget is new or changed."""
        self.budgets[budget.namespace, budget.name] = budget

    def delete_budget(self, namespace: str, name: str) -> None:
        """A budget is gone."""
        self.budgets.pop((namespace, name), None)

    def replace_budgets(self, budgets: Iterable[DisruptionBudget]) -> None:
        """All budgets that exist."""
        self.budgets = {(one.namespace, one.name): one for one in budgets}

    # --- preemptors --------------------------------------------------------------------------

    def begin(self, uid: str, victims: frozenset[str], now: float) -> None:
        """A preemptor's round begins; ``victims`` are deleted through the API server."""
        self._rounds[uid] = (*self._rounds.get(uid, ()), now)
        if victims:
            self.running[uid] = victims

    def end(self, uid: str) -> None:
        """The API server has answered about every victim."""
        self.running.pop(uid, None)

    def forget(self, uid: str) -> None:
        """The pod is placed, or gone."""
        self.running.pop(uid, None)
        self._rounds.pop(uid, None)

    def stop(self) -> None:
        """This process does not lead any more: nothing is sent."""
        self.running.clear()

    def pass_time(self, now: float) -> list[str]:
        """Rounds that are long ago count no more; the preemptors that may preempt again."""
        freed: list[str] = []
        for uid, began in list(self._rounds.items()):
            kept = tuple(one for one in began if now - one < ROUNDS_S)
            if len(began) >= ROUNDS_MAX > len(kept):
                freed.append(uid)
            if kept:
                self._rounds[uid] = kept
            else:
                del self._rounds[uid]
        return freed

    def exhausted(self) -> frozenset[str]:
        """The preemptors that had as many rounds as one may have."""
        return frozenset(uid for uid, began in self._rounds.items() if len(began) >= ROUNDS_MAX)

    def is_exhausted(self, uid: str) -> bool:
        """Whether a preemptor had as many rounds as one may have."""
        return len(self._rounds.get(uid, ())) >= ROUNDS_MAX

    def exhaust(self, uids: Iterable[str], now: float) -> None:
        """Count these preemptors as exhausted (a restored state)."""
        for uid in uids:
            self._rounds[uid] = (now,) * ROUNDS_MAX
