"""What a refused pod waits for, and who listens to which kind of change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from scheduler.model.reason import Diagnosis, Reason, ReasonCode, RequeueCause
from scheduler.state.event import ClusterEvent

ANYTHING = ""
#: Kind (or uid), priority and namespace: who waits together.
Key = tuple[object, int, str]


class RequeueCondition(msgspec.Struct, frozen=True):
    """What a refused pod waits for.

    ``frees`` are the resources of which one must become free before FREED can help
    (``ANYTHING``: whatever it is); ``node_name`` is the only node that matters, if there is
    one; ``is_alone`` where the answer was about this pod and not about its kind;
    ``is_for_siblings`` where it was about any line of a map, for which its siblings wait as well.
    """

    causes: frozenset[RequeueCause]
    lacking: frozenset[str] = frozenset()
    frees: frozenset[str] = frozenset((ANYTHING,))
    node_name: str = ""
    is_alone: bool = False
    is_for_siblings: bool = False

    def tokens(self) -> Iterator[tuple[RequeueCause, str]]:
        """What to listen to."""
        for cause in self.causes:
            if cause is RequeueCause.FREED:
                yield from ((cause, resource) for resource in self.frees)
            else:
                yield cause, ANYTHING

    def beside(self, other: RequeueCondition) -> RequeueCondition:
        """For the same pods: what they wait for when a node has new reasons to say no.

        Of a pod with a map it is not the node's no but the map's, which fits no one node any
        more: from then on each node may be the one.
        """
        return msgspec.structs.replace(
            self,
            causes=self.causes | other.causes,
            lacking=self.lacking | other.lacking,
            frees=self.frees | other.frees,
            node_name=other.node_name,
        )


def why(diagnosis: Diagnosis, node_name: str = "") -> RequeueCondition:
    """What a pod with this diagnosis waits for."""
    found = _why(diagnosis.codes(), diagnosis.lacking())
    general = diagnosis.general
    return msgspec.structs.replace(
        found,
        node_name=node_name,
        is_alone=general is not None,
        is_for_siblings=general is not None and general.code.is_for_siblings,
    )


def why_of(reasons: Iterable[Reason]) -> RequeueCondition:
    """What a pod waits for at one node with these reasons."""
    reasons = tuple(reasons)
    lacking = frozenset(one.resource for one in reasons if one.code.is_about_resource)
    return _why(frozenset(one.code for one in reasons), lacking)


def _why(codes: frozenset[ReasonCode], lacking: frozenset[str]) -> RequeueCondition:
    frees = set(lacking)
    for code in codes:
        if RequeueCause.FREED in code.lifted_by and not code.is_about_resource:
            frees.add(code.frees or ANYTHING)
    causes = frozenset(cause for code in codes for cause in code.lifted_by)
    return RequeueCondition(
        causes or frozenset((RequeueCause.NODE, RequeueCause.POD)), lacking, frozenset(frees)
    )


class RequeueIndex:
    """Keys of those who wait, by what they wait for."""

    def __init__(self) -> None:
        self._by_token: dict[tuple[RequeueCause, str], dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self._by_token)

    def add(self, key: Key, why: RequeueCondition) -> None:
        """Listen."""
        for token in why.tokens():
            self._by_token.setdefault(token, {})[key] = None

    def discard(self, key: Key, why: RequeueCondition) -> None:
        """Listen no more; it was added with the same reason."""
        for token in why.tokens():
            listeners = self._by_token[token]
            del listeners[key]
            if not listeners:
                del self._by_token[token]

    def of(self, change: ClusterEvent) -> list[Key]:
        """Who waits for such a change, longest first, each once."""
        found: dict[Key, None] = {}
        for (cause, token), listeners in self._by_token.items():
            is_it = not change.what or token == ANYTHING or token in change.what
            if cause is change.cause and is_it:
                found |= listeners
        return list(found)
