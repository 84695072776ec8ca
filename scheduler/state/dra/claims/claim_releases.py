"""Reservations of claims that are being taken back: the devices are free when that is answered."""

from __future__ import annotations

from collections.abc import Iterable


class ClaimReleases:
    """``keys`` are the claims that each pod gives back, from the request until its answer."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, ...]] = {}

    def begin(self, pod_uid: str, keys: Iterable[str]) -> None:
        """A request to release and deallocate the claims of a pod is about to be sent."""
        self.keys[pod_uid] = tuple(keys)

    def end(self, pod_uid: str) -> tuple[str, ...]:
        """A request about the claims of a pod is answered; the claims that it was to deallocate."""
        return self.keys.pop(pod_uid, ())

    def has(self, key: str, pod_uid: str = "") -> bool:
        """Whether this pod, or any pod, gives the claim back."""
        if pod_uid:
            return key in self.keys.get(pod_uid, ())
        return any(key in keys for keys in self.keys.values())
