"""The requeue conditions of rejected pods, indexed by the changes that may help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from scheduler.model.reasons.reason import Diagnosis, Reason, ReasonCode, RequeueCause
from scheduler.state.event import ClusterEvent

ANYTHING = ""
#: The causes about one claim: such a change names it.
_OF_CLAIMS = (RequeueCause.CLAIM, RequeueCause.RESOURCE_CLAIM)
#: Equivalence class (or uid), priority and namespace of a group.
Key = tuple[object, int, str]


class RequeueCondition(msgspec.Struct, frozen=True):
    """The changes that may help a rejected pod.

    ``frees`` are the resources of which one must become free before FREED can help (``ANYTHING``:
    any resource). ``node_name`` is the only node that matters, if there is one. ``is_alone`` if the
    answer concerns this pod and not its equivalence class. ``is_for_siblings`` if it concerns any
    line of a map, so that the siblings wait too. ``claims`` are the pod's own, one of which must
    change before CLAIM or RESOURCE_CLAIM can help. ``team`` is the only team whose TEAM can help.
    """

    causes: frozenset[RequeueCause]
    lacking: frozenset[str] = frozenset()
    frees: frozenset[str] = frozenset((ANYTHING,))
    node_name: str = ""
    is_alone: bool = False
    is_for_siblings: bool = False
    claims: tuple[str, ...] = ()
    team: str = ANYTHING

    def tokens(self) -> Iterator[tuple[RequeueCause, str]]:
        """The index keys of the condition."""
        for cause in self.causes:
            if cause is RequeueCause.FREED:
                yield from ((cause, resource) for resource in self.frees)
            elif cause in _OF_CLAIMS:
                yield from ((cause, key) for key in dict.fromkeys(self.claims))
            elif cause is RequeueCause.TEAM:
                yield cause, self.team
            else:
                yield cause, ANYTHING

    def is_met_by(self, change: ClusterEvent) -> bool:
        """Whether such a change may help; ``RequeueIndex.of`` answers it for many conditions."""
        return any(
            cause is change.cause and (token in change.what or (_is_for_any(change, token)))
            for cause, token in self.tokens()
        )

    def beside(self, other: RequeueCondition) -> RequeueCondition:
        """The condition extended by new reasons of a node.

        The rejection of a mapped pod comes from its map, so later any node may fit.
        """
        return msgspec.structs.replace(
            self,
            causes=self.causes | other.causes,
            lacking=self.lacking | other.lacking,
            frees=self.frees | other.frees,
            node_name=other.node_name,
        )


def requeue_condition(diagnosis: Diagnosis, node_name: str = "") -> RequeueCondition:
    """The requeue condition of a pod with this diagnosis."""
    found = _condition_of_codes(diagnosis.codes(), diagnosis.lacking())
    general = diagnosis.general
    is_of_team = general is not None and RequeueCause.TEAM in general.code.lifted_by
    return msgspec.structs.replace(
        found,
        causes=found.causes | {RequeueCause.TEAM} if diagnosis.team else found.causes,
        node_name=node_name,
        is_alone=general is not None and not general.code.is_for_class,
        team=general.resource if general is not None and is_of_team else diagnosis.team,
        is_for_siblings=general is not None and general.code.is_for_siblings,
    )


def requeue_condition_at_node(reasons: Iterable[Reason]) -> RequeueCondition:
    """The requeue condition of a pod with these reasons at one node."""
    reasons = tuple(reasons)
    lacking = frozenset(one.resource for one in reasons if one.code.is_about_resource)
    return _condition_of_codes(frozenset(one.code for one in reasons), lacking)


def _condition_of_codes(codes: frozenset[ReasonCode], lacking: frozenset[str]) -> RequeueCondition:
    frees = set(lacking)
    for code in codes:
        if RequeueCause.FREED in code.lifted_by and not code.is_about_resource:
            frees.add(code.frees or ANYTHING)
    causes = frozenset(cause for code in codes for cause in code.lifted_by)
    return RequeueCondition(
        causes or frozenset((RequeueCause.NODE, RequeueCause.POD)), lacking, frozenset(frees)
    )


def _is_for_any(change: ClusterEvent, token: str) -> bool:
    """Whether the change concerns every token of its cause; one of claims names each of them."""
    return change.cause not in _OF_CLAIMS and (not change.what or token == ANYTHING)


class RequeueIndex:
    """Keys of groups by the changes that they wait for."""

    def __init__(self) -> None:
        self._by_cause: dict[RequeueCause, dict[str, dict[Key, None]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_cause.values()))

    def add(self, key: Key, condition: RequeueCondition) -> None:
        """Register a group."""
        for cause, token in condition.tokens():
            self._by_cause.setdefault(cause, {}).setdefault(token, {})[key] = None

    def discard(self, key: Key, condition: RequeueCondition) -> None:
        """Remove a group; it must be registered with the same condition."""
        for cause, token in condition.tokens():
            tokens = self._by_cause[cause]
            keys = tokens[token]
            del keys[key]
            if not keys:
                del tokens[token]
                if not tokens:
                    del self._by_cause[cause]

    def of(self, change: ClusterEvent) -> list[Key]:
        """The groups that wait for such a change, longest wait first, each once."""
        tokens = self._by_cause.get(change.cause, {})
        if change.cause in _OF_CLAIMS:  # there may be as many claims as pods
            return list(dict.fromkeys(k for one in change.what for k in tokens.get(one, ())))
        found: dict[Key, None] = {}
        for token, keys in tokens.items():
            if token in change.what or _is_for_any(change, token):
                found |= keys
        return list(found)
