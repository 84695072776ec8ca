"""The claims that placements allocate, until the API server shows the allocation.

kube-scheduler has the same in ``dynamicresources/dra_manager.go`` (pending allocations).
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.dra.allocation import Allocation


class AssumedAllocations:
    """Allocations by claim, and the pod whose placement made each."""

    def __init__(self) -> None:
        #: Key of a claim -> its uid, and the allocation.
        self._allocations: dict[str, tuple[str, Allocation]] = {}
        self._by_pod: dict[str, dict[str, None]] = {}
        #: Uid of a pod -> its requests to the API server that are not answered.
        self._writes: dict[str, int] = {}
        #: What was taken back meanwhile: a request may still be carried out.
        self._taken_back: dict[str, dict[str, None]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._allocations

    def of(self, key: str) -> Allocation | None:
        """What a placement allocates to a claim."""
        found = self._allocations.get(key)
        return None if found is None else found[1]

    def give(self, pod_uid: str, key: str, claim_uid: str, allocation: Allocation) -> None:
        """A pod's placement allocates devices to a claim."""
        self._allocations[key] = (claim_uid, allocation)
        self._by_pod.setdefault(pod_uid, {})[key] = None

    def restore(self, pod_uid: str) -> tuple[str, ...]:
        """The placement is taken back; the claims whose allocation is not assumed any more."""
        keys = self._by_pod.pop(pod_uid, {})
        if pod_uid in self._writes:
            self._taken_back.setdefault(pod_uid, {}).update(keys)
            return ()
        return self._forget(keys)

    def begin_write(self, pod_uid: str) -> None:
        """A request with the allocations of a pod is about to be sent."""
        self._writes[pod_uid] = self._writes.get(pod_uid, 0) + 1

    def is_writing(self, pod_uid: str) -> bool:
        """Whether a request with the allocations of a pod is not answered."""
        return pod_uid in self._writes

    def end_write(self, pod_uid: str) -> tuple[str, ...]:
        """It is answered; the claims whose allocation is not assumed any more."""
        left = self._writes.pop(pod_uid, 1) - 1
        if left:
            self._writes[pod_uid] = left
            return ()
        return self._forget(self._taken_back.pop(pod_uid, {}))

    def _forget(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(key for key in keys if self._allocations.pop(key, None) is not None)

    def end(self, pod_uid: str) -> None:
        """The pod is bound: the allocations end with what the API server shows."""
        self._by_pod.pop(pod_uid, None)

    def drop(self, key: str, claim_uid: str = "") -> bool:
        """The API server shows an allocation, or the claim is gone or is another one."""
        found = self._allocations.get(key)
        if found is None or found[0] == claim_uid:
            return False
        del self._allocations[key]
        return True
