"""What a refused pod waits for, and who listens to which kind of change."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.model import names
from scheduler.model.reason import Cause, Code, Diagnosis
from scheduler.state.event import Lifted

ANYTHING = ""
#: Kind (or uid), priority and namespace: who waits together.
Key = tuple[object, int, str]


class Why(msgspec.Struct, frozen=True):
    """What a refused pod waits for.

    ``frees`` are the resources of which one must become free before FREED can help
    (``ANYTHING``: whatever it is); ``node_name`` is the only node that matters, if there is
    one; ``is_alone`` where the answer was about this pod and not about its kind.
    """

    causes: frozenset[Cause]
    lacking: frozenset[str] = frozenset()
    frees: frozenset[str] = frozenset((ANYTHING,))
    node_name: str = ""
    is_alone: bool = False

    def tokens(self) -> Iterator[tuple[Cause, str]]:
        """What to listen to."""
        for cause in self.causes:
            if cause is Cause.FREED:
                yield from ((cause, resource) for resource in self.frees)
            else:
                yield cause, ANYTHING


#: Codes that something of one resource lifts; every other one may be lifted by any pod's end.
_ONE_RESOURCE = {Code.INSUFFICIENT, Code.TOO_MANY_PODS}


def why(diagnosis: Diagnosis, node_name: str = "") -> Why:
    """What a pod with this diagnosis waits for."""
    codes = diagnosis.codes()
    frees = set(diagnosis.lacking())
    if Code.TOO_MANY_PODS in codes:
        frees.add(names.PODS)
    if any(Cause.FREED in code.causes for code in codes - _ONE_RESOURCE):
        frees.add(ANYTHING)
    return Why(
        diagnosis.causes() or frozenset((Cause.NODE, Cause.POD)),
        diagnosis.lacking(),
        frozenset(frees),
        node_name,
        diagnosis.general is not None,
    )


class Listeners:
    """Keys of those who wait, by what they wait for."""

    def __init__(self) -> None:
        self._by_token: dict[tuple[Cause, str], dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self._by_token)

    def add(self, key: Key, why: Why) -> None:
        """Listen."""
        for token in why.tokens():
            self._by_token.setdefault(token, {})[key] = None

    def discard(self, key: Key, why: Why) -> None:
        """Listen no more; it was added with the same reason."""
        for token in why.tokens():
            listeners = self._by_token[token]
            del listeners[key]
            if not listeners:
                del self._by_token[token]

    def of(self, change: Lifted) -> list[Key]:
        """Who waits for such a change, longest first, each once."""
        found: dict[Key, None] = {}
        for (cause, token), listeners in self._by_token.items():
            is_it = not change.what or token == ANYTHING or token in change.what
            if cause is change.cause and is_it:
                found |= listeners
        return list(found)
