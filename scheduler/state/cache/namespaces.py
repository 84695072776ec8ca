"""Namespaces with their labels and annotations: whether pods may use maps, which ladder applies."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.node import Namespace
from scheduler.model.reasons.reason import RequeueCause
from scheduler.model.teams.configuration import quota_text
from scheduler.state.event import Change, ClusterEvent
from scheduler.state.whole_list import fold_list


class NamespaceStore:
    """All namespaces, by name; ``maps_allow`` is the configuration's ``maps.allow``."""

    def __init__(self, maps_allow: str) -> None:
        self.known: dict[str, Namespace] = {}
        self.maps_allow = maps_allow
        self._turned: set[str] = set()
        self._relabelled: set[str] = set()

    def of(self, name: str) -> Namespace:
        """A namespace; an unknown one has no labels."""
        return self.known.get(name) or Namespace(name=name)

    def may_map(self, name: str) -> bool:
        """Whether pods of a namespace may use maps."""
        return self.of(name).may_map(self.maps_allow)

    def upsert(self, namespace: Namespace) -> list[Change]:
        """Fold a namespace's newest state."""
        if self.known.get(namespace.name) == namespace:
            return []
        self._note(namespace.name, namespace)
        self.known[namespace.name] = namespace
        return [ClusterEvent(RequeueCause.NAMESPACE, namespace.name)]

    def delete(self, name: str) -> list[Change]:
        """Fold a namespace's deletion."""
        self._note(name, Namespace(name=name))
        self.known.pop(name, None)
        return []

    def replace(self, namespaces: Iterable[Namespace]) -> list[Change]:
        """Fold the whole list of namespaces."""
        listed = {namespace.name: namespace for namespace in namespaces}
        return fold_list(self.known, listed, self.delete, self.upsert)

    def turned(self) -> frozenset[str]:
        """The namespaces whose permission to use maps changed since the last call."""
        found = frozenset(self._turned)
        self._turned.clear()
        return found

    def relabelled(self) -> frozenset[str]:
        """The namespaces whose labels or team quotas changed since the last call."""
        found = frozenset(self._relabelled)
        self._relabelled.clear()
        return found

    def _note(self, name: str, after: Namespace) -> None:
        before = self.of(name)
        if before.labels != after.labels or quota_text(before) != quota_text(after):
            self._relabelled.add(name)
        if self.may_map(name) != after.may_map(self.maps_allow):
            self._turned ^= {name}
