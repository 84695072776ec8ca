"""The PersistentVolumes that claims may get: free ones by class and host, others by their claim.

Most volumes of a large cluster are bound, and most free ones are local to one node. So a decision
reads neither the former nor those of other nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from scheduler.model.volumes.persistent_volume import AVAILABLE, PersistentVolume
from scheduler.model.well_known import HOSTNAME


class _Class:
    """The free volumes of one storage class."""

    __slots__ = ("anywhere", "by_host")

    def __init__(self) -> None:
        self.by_host: dict[str, dict[str, None]] = {}
        self.anywhere: dict[str, None] = {}


class VolumeIndex:
    """Names of volumes."""

    def __init__(self) -> None:
        self._classes: dict[str, _Class] = {}
        self._by_claim: dict[str, dict[str, None]] = {}

    def local(self, class_name: str, host: str | None) -> Iterable[str]:
        """The free volumes of a class that only this host has."""
        found = self._classes.get(class_name)
        return () if found is None or host is None else found.by_host.get(host, ())

    def anywhere(self, class_name: str) -> Iterable[str]:
        """The free volumes of a class that are not local to a host."""
        found = self._classes.get(class_name)
        return () if found is None else found.anywhere

    def hosts(self, class_name: str) -> Collection[str]:
        """The hosts that have free local volumes of a class."""
        found = self._classes.get(class_name)
        return () if found is None else found.by_host

    def of_claim(self, key: str) -> Iterable[str]:
        """The volumes that name a claim."""
        return self._by_claim.get(key, ())

    def put(self, before: PersistentVolume | None, after: PersistentVolume | None) -> None:
        """A volume changed; None where it was not there, or is gone."""
        if before is not None:
            self._drop(before)
        if after is None:
            return
        if after.claim is not None:
            key = f"{after.claim.namespace}/{after.claim.name}"
            self._by_claim.setdefault(key, {})[after.name] = None
        elif after.phase == AVAILABLE:
            found = self._classes.setdefault(after.class_name, _Class())
            hosts = hosts_of(after)
            if hosts is None:
                found.anywhere[after.name] = None
            for host in hosts or ():
                found.by_host.setdefault(host, {})[after.name] = None

    def _drop(self, volume: PersistentVolume) -> None:
        if volume.claim is not None:
            key = f"{volume.claim.namespace}/{volume.claim.name}"
            _discard(self._by_claim, key, volume.name)
        elif (found := self._classes.get(volume.class_name)) is not None:
            found.anywhere.pop(volume.name, None)
            for host in hosts_of(volume) or ():
                _discard(found.by_host, host, volume.name)
            if not found.anywhere and not found.by_host:
                del self._classes[volume.class_name]


def hosts_of(volume: PersistentVolume) -> frozenset[str] | None:
    """The hosts that its node affinity allows; None where it does not name every host."""
    terms = volume.required_terms
    if terms is None:
        return None
    found: set[str] = set()
    for term in terms:
        named = [
            one.values
            for one in term.match_expressions
            if one.key == HOSTNAME and one.operator == "In"
        ]
        if not named:
            return None
        found.update(named[0])
    return frozenset(found)


def _discard(names: dict[str, dict[str, None]], key: str, name: str) -> None:
    found = names.get(key)
    if found is not None:
        found.pop(name, None)
        if not found:
            del names[key]
