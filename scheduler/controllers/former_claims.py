"""Claims for extended resources that an earlier attempt left: a process ended before the Binding.

Such a claim may hold the only device that its pod fits on, so it is deleted at once, and the pod
gets a new one (kube-scheduler deletes it in PostFilter).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from scheduler.model.actions import CreatedClaim, ReleaseClaims
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import NOTHING, Effects

#: After so many seconds the deletion of a claim that still exists is requested again.
AGAIN_S: Final = 30.0


class FormerClaims:
    """The claims of pods that wait for a node, as the watch shows them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: Key of a claim -> when its deletion may be requested again, on the loop's clock.
        self._requested: dict[str, float] = {}

    def delete_of(self, pod: Pod) -> Effects:
        """Delete the claim that a pod has before it gets another one."""
        claim = self._cluster.dra.extended_claim(pod.uid)
        return NOTHING if claim is None else (_deletion(claim, pod),)

    def delete_abandoned(self, busy: Collection[str], now: float) -> Effects:
        """Delete the claims of pods that are not on their way to a node; ``busy`` are uids."""
        effects: Effects = NOTHING
        seen: set[str] = set()
        for claim in self._cluster.dra.extended_claims():
            seen.add(claim.key)
            pod = self._cluster.pods.get(claim.owner_uid)
            if pod is None or claim.is_deleting or pod.uid in busy or not self._waits(pod):
                continue
            if now >= self._requested.get(claim.key, now):
                self._requested[claim.key] = now + AGAIN_S
                effects += (_deletion(claim, pod),)
        for key in self._requested.keys() - seen:
            del self._requested[key]
        return effects

    def _waits(self, pod: Pod) -> bool:
        is_ours = pod.scheduler_name == self._cluster.scheduler_name
        return is_ours and not pod.node_name and pod.uid not in self._cluster.assumed


def _deletion(claim: ResourceClaim, pod: Pod) -> ReleaseClaims:
    created = CreatedClaim(claim.namespace, claim.name, pod.name)
    return ReleaseClaims(pod.uid, (), created=created)
