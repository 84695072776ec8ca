"""The label keys that pods name and nodes have, to limit the keys of the index.

A key that no node has does not distinguish nodes: the nodes of every class lack it. So a key in a
pod costs the index nothing unless nodes have it. Then the cost is limited per pod, in total, and by
the number of rebuilds of the index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from scheduler.model import limits

#: A pod with more label keys adds none to the index; its nodes are found by a scan.
KEYS_PER_POD_MAX = limits.LABELS_OF_A_POD_MAX
#: Maximum number of keys of the index; further keys need scans until unused keys are dropped.
KEYS_MAX = limits.LABELS_MAX
#: A rebuild of the index costs about as much as this number of scans, so that many scans come
#: first.
PATIENCE = 8


class LabelKeys:
    """Counts of label keys: live pods that name them, and nodes that have them."""

    def __init__(self) -> None:
        self._named: Counter[str] = Counter()
        #: The same without pods that name too many keys.
        self._counted: Counter[str] = Counter()
        self._there: Counter[str] = Counter()
        self._missing: dict[str, None] = {}
        #: Pods that asked for keys which the index lacks, since it was built.
        self.uses = 0

    def is_named(self, key: str) -> bool:
        """Whether a live pod names the key."""
        return key in self._named

    def is_there(self, key: str) -> bool:
        """Whether a node has the key."""
        return key in self._there

    def name(self, before: Collection[str], after: Collection[str]) -> None:
        """The keys that a pod named before and names now; empty for a pod that does not exist."""
        self._named.update(after)
        _less(self._named, before)
        if len(after) <= KEYS_PER_POD_MAX:
            self._counted.update(after)
        if len(before) <= KEYS_PER_POD_MAX:
            _less(self._counted, before)

    def add_labels(self, labels: Mapping[str, str]) -> None:
        """A node with these labels was added."""
        for key in labels:
            if key not in self._there and key in self._counted:
                self._missing[key] = None
                self.uses = PATIENCE  # its pods have waited for nothing else
            self._there[key] += 1

    def remove_labels(self, labels: Mapping[str, str]) -> None:
        """A node with these labels was removed."""
        _less(self._there, labels)

    def ask(self, keys: Collection[str], known: Collection[str]) -> None:
        """A pod with these keys is about to be decided; ``known`` are the keys of the index."""
        if len(keys) > KEYS_PER_POD_MAX:
            return
        missing = [key for key in keys if key in self._there and key not in known]
        if missing:
            self._missing.update(dict.fromkeys(missing))
            self.uses += 1

    def due(self, known: Collection[str]) -> tuple[str, ...]:
        """All keys of the next index; empty if it stays unchanged.

        Keys in ``known`` that no pod names are dropped only if the limit requires it.
        """
        if self.uses < PATIENCE:
            return ()
        missing = [key for key in self._missing if key in self._there and key not in known]
        self._missing.clear()
        self.uses = 0
        kept = tuple(known)
        if len(kept) + len(missing) > KEYS_MAX:
            kept = tuple(key for key in known if key in self._counted)
        added = missing[: max(0, KEYS_MAX - len(kept))]
        return (*kept, *added) if added else ()


def _less(counts: Counter[str], keys: Iterable[str]) -> None:
    for key in keys:
        counts[key] -= 1
        if counts[key] <= 0:
            del counts[key]
