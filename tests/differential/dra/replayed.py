"""The ResourceClaims of a replay: as kube-scheduler wrote them, and released as in the live run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.answers import FAILED, Answer, OurAnswer
from tests.differential.dra.objects import CLAIMS, extended_claim
from tests.differential.sequence import AllocateClaim

Json = dict[str, Any]


class ReplayedClaims:
    """Changes the claims among the objects of a replay (``live/claim_controller``)."""

    def __init__(
        self,
        objects: dict[tuple[str, str], Json],
        see: Callable[[str, Json], None],
        lose: Callable[[str, str], None],
    ) -> None:
        self._objects = objects
        self._see = see
        self._lose = lose

    def users(self, key: str) -> set[str]:
        """The names of the pods for which a claim is reserved."""
        claim = self._objects.get((CLAIMS, key), {})
        return {one["name"] for one in claim.get("status", {}).get("reservedFor", ())}

    def deallocation_difference(self, theirs: Answer, ours: OurAnswer) -> str:
        """Whether one scheduler only gives up an allocation of a pod that it rejects."""
        if theirs.nodes or FAILED in theirs.reasons:
            return ""
        freed = [
            one.key
            for one in theirs.effects
            if isinstance(one, AllocateClaim) and one.allocation is None
            if self._objects[CLAIMS, one.key].get("status", {}).get("allocation")
        ]
        given_up = ours.deallocates
        if bool(freed) == bool(given_up):
            return ""
        return f"kube-scheduler deallocates {freed}; ours {given_up or 'nothing'}"

    def allocate(self, written: AllocateClaim, pod: Json) -> None:
        """kube-scheduler has decided a pod, and written a claim."""
        claim = self._objects.get((CLAIMS, written.key)) or extended_claim(pod, written.key)
        self._set_status(claim, written.allocation, written.users)

    def release(self, pod_name: str) -> None:
        """A pod is gone."""
        for kind, key in list(self._objects):
            if kind != CLAIMS:
                continue
            claim = self._objects[kind, key]
            owners = claim["metadata"].get("ownerReferences", ())
            if any(one["uid"] == pod_name for one in owners):
                self._lose(kind, key)
            elif pod_name in (users := self.users(key)):
                left = sorted(users - {pod_name})
                allocation = claim["status"]["allocation"] if left else None
                self._set_status(claim, allocation, left)

    def _set_status(self, claim: Json, allocation: Json | None, users: Any) -> None:
        status: Json = {}
        if allocation is not None:
            reserved = [{"resource": "pods", "name": one, "uid": one} for one in users]
            status = {"allocation": allocation, "reservedFor": reserved}
        self._see(CLAIMS, {**claim, "status": status})
