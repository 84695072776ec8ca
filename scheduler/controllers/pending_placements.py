"""The placements of one controller that wait for a PreBind step, and how such a wait ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.framework.decision import PendingPlacement
from scheduler.model.actions import DropPlacement
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import Effects


class Pending(Protocol):
    """What a controller stores of a placement that waits."""

    placement: PendingPlacement


P = TypeVar("P", bound=Pending)


class PendingPlacements(dict[str, P], Generic[P]):
    """Placements that wait, by the uid of their pod."""

    def __init__(self, cluster: Cluster, avoidance: NodeAvoidance) -> None:
        super().__init__()
        self._cluster = cluster
        self._avoidance = avoidance

    def drop(self, uid: str, changes: Iterable[ev.Change], now: float) -> Effects:
        """The pod is not on its way to the node any more; ``changes`` take effect first."""
        del self[uid]
        return (*changes, DropPlacement(uid), *self._avoidance.forget_pod(uid, now))

    def give_up(self, uid: str, now: float) -> Effects:
        """Nothing failed: the pod is decided again at once, if it still waits for a node."""
        return self.drop(uid, self._cluster.give_up(uid), now)

    def give_up_all(self, now: float) -> Effects:
        """End every wait, for example because this process stopped leading."""
        return tuple(effect for uid in list(self) for effect in self.give_up(uid, now))

    def reject(self, uid: str, now: float) -> Effects | None:
        """Cancel the wait of one pod; None if it does not wait here."""
        return self.give_up(uid, now) if uid in self else None
