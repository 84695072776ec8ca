"""Claims for the extended resources of pods: those that exist, and those that are to be created."""

from __future__ import annotations

from collections.abc import Collection

from scheduler.model.dra.claim import ResourceClaim

#: The uid of a claim that does not exist yet.
NOT_CREATED = "<new>"


class ExtendedClaims:
    """Keys of claims by the uid of their pod."""

    def __init__(self) -> None:
        self._existing: dict[str, str] = {}
        #: One for each placement: the write of an earlier one may not be answered yet.
        self._planned: dict[str, dict[str, None]] = {}
        self._count = 0

    def of(self, pod_uid: str) -> str:
        """The key of the claim that exists; empty if there is none."""
        return self._existing.get(pod_uid, "")

    def every(self) -> Collection[str]:
        """The keys of all claims that exist."""
        return self._existing.values()

    def change(self, claim: ResourceClaim, *, is_there: bool) -> None:
        """A claim was created or changed, or is gone."""
        uid = claim.owner_uid
        if is_there and uid:
            self._existing[uid] = claim.key
        elif self._existing.get(uid) == claim.key:
            del self._existing[uid]

    def plan(self, pod_uid: str) -> str:
        """A placement creates a claim; its key is none of the API."""
        self._count += 1
        key = f"{NOT_CREATED}/{pod_uid}/{self._count}"
        self._planned.setdefault(pod_uid, {})[key] = None
        return key

    @staticmethod
    def pod_of(key: str) -> tuple[str, ...]:
        """The uid of the pod for which a claim is to be created; empty for one that exists."""
        first, _, rest = key.partition("/")
        return (rest.rpartition("/")[0],) if first == NOT_CREATED else ()

    def planned(self, pod_uid: str) -> tuple[str, ...]:
        """The keys of the claims that placements of a pod create."""
        return tuple(self._planned.get(pod_uid, ()))

    def drop(self, pod_uid: str, key: str) -> None:
        """A claim is not to be created any more, or exists."""
        keys = self._planned.get(pod_uid, {})
        keys.pop(key, None)
        if not keys:
            self._planned.pop(pod_uid, None)
