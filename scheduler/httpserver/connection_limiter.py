"""The open connections of a listener, and the one to drop above the limit.

The limit is of the listener or of one address. The first choice is the oldest connection without a
complete request, if these are more than a quarter; else the longest idle one of the others. A
connection with a request in progress is never dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from scheduler.httpserver.connection import Connection
from scheduler.httpserver.limits import NEW_SHARE


class ConnectionLimiter:
    """Connections in drop order."""

    def __init__(self) -> None:
        #: By arrival: no complete request yet.
        self._new: dict[Connection, None] = {}
        #: By last answer, the longest idle first.
        self._proven: dict[Connection, None] = {}
        self._of_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._new) + len(self._proven)

    def __iter__(self) -> Iterator[Connection]:
        return chain(self._new, self._proven)

    def of(self, address: str) -> int:
        """The number of connections of an address."""
        return self._of_address[address]

    def add(self, connection: Connection) -> None:
        """Add a connection."""
        self._new[connection] = None
        self._of_address[connection.address] += 1

    def proved(self, connection: Connection) -> None:
        """A request of it was answered successfully: it moves to the end."""
        if self._has(connection):
            self._new.pop(connection, None)
            self._proven.pop(connection, None)
            self._proven[connection] = None

    def remove(self, connection: Connection) -> None:
        """Remove a connection; idempotent."""
        if not self._has(connection):
            return
        self._new.pop(connection, None)
        self._proven.pop(connection, None)
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def victim(self, limit: int, address: str | None = None) -> Connection | None:
        """The connection to drop once ``limit`` (of an address) is reached; None if all are
        busy.
        """
        new = [one for one in self._new if address is None or one.address == address]
        proven = [one for one in self._proven if address is None or one.address == address]
        order = (new, proven) if len(new) > NEW_SHARE * limit else (proven, new)
        return next((one for one in chain(*order) if one.can_be_dropped), None)

    def _has(self, connection: Connection) -> bool:
        return connection in self._new or connection in self._proven
