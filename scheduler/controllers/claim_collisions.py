"""Reports claims with devices that another claim had first: another scheduler allocated them too.

A claim of a placement that waits gives way (``claim_allocation``). Any other claim is in use by a
pod or belongs to another scheduler, and is never changed: each is logged once, and counted while
the collision lasts.
"""

from __future__ import annotations

from typing import Final

import structlog

from scheduler.model.dra.claim import ResourceClaim
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.dra.collisions import collision, unusable_pool
from scheduler.state.effects import NOTHING, Effects

#: Pods of a claim in a log line.
PODS_SHOWN: Final = 3

log = structlog.get_logger("claims")


class ClaimCollisions:
    """The claims of one cluster state that collide with an earlier one."""

    name = "claim-collisions"
    handles = (ev.DraUpdated, ev.DraReplaced)

    def __init__(self, cluster: Cluster, metrics: Metrics) -> None:
        self._cluster = cluster
        self._metrics = metrics
        #: Keys of claims that changed.
        self._changed: dict[str, None] = {}
        #: Keys of claims that collide, and whether it was logged.
        self._colliding: dict[str, bool] = {}

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Remember which claims changed."""
        match event:
            case ev.DraUpdated(ResourceClaim() as claim):
                self._changed[claim.key] = None
            case ev.DraReplaced(kind, items) if kind is ResourceClaim:
                self._changed.update(dict.fromkeys(one.key for one in items))
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Look at what changed, and again at what collided before; only a leader reports."""
        before, self._colliding = self._colliding, {}
        looked_at, self._changed = {**self._changed, **before}, {}
        for key in looked_at:
            self._look(key, is_told=before.get(key, False), leads=leads)
        self._metrics.colliding_claims.set(len(self._colliding) if leads else 0)
        return NOTHING

    def _look(self, key: str, *, is_told: bool, leads: bool) -> None:
        claim = self._cluster.dra.claim(key)
        if claim is None:
            return
        found = collision(self._cluster.dra, claim)
        if found is None:
            if unusable_pool(self._cluster.dra, claim):
                self._changed[key] = None  # a collision may show when its slices are complete
            return
        if any(one.uid in self._cluster.assumed for one in claim.reserved_for):
            self._changed[key] = None  # its placement may give way
            return
        self._colliding[key] = is_told or leads
        if leads and not is_told:
            pods = [f"{claim.namespace}/{one.name}" for one in claim.reserved_for[:PODS_SHOWN]]
            log.warning("claims collide", claim=key, pods=pods, problem=str(found))
