"""Namespaces with their labels and annotations: who may use maps, which ladder holds."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.node import Namespace
from scheduler.model.reason import Cause
from scheduler.state.event import Change, Lifted


class Spaces:
    """All namespaces, by name."""

    def __init__(self) -> None:
        self.known: dict[str, Namespace] = {}

    def of(self, name: str) -> Namespace:
        """A namespace; one that is not known yet has no labels."""
        return self.known.get(name) or Namespace(name=name)

    def see(self, namespace: Namespace) -> list[Change]:
        """Fold a namespace's newest state."""
        if self.known.get(namespace.name) == namespace:
            return []
        self.known[namespace.name] = namespace
        return [Lifted(Cause.NAMESPACE, namespace.name)]

    def lose(self, name: str) -> list[Change]:
        """Fold a namespace's deletion."""
        self.known.pop(name, None)
        return []

    def keep_only(self, namespaces: Iterable[Namespace]) -> list[Change]:
        """Fold the whole list of namespaces."""
        listed = {namespace.name: namespace for namespace in namespaces}
        for name in [name for name in self.known if name not in listed]:
            del self.known[name]
        return [change for one in listed.values() for change in self.see(one)]
