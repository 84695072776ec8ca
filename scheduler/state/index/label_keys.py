"""Which labels pods ask for and which labels nodes have, so that the index need not tell all apart.

A label that no node has tells no nodes apart: it is known of every class that its nodes lack it,
whatever pods ask for. So what an author writes costs the index nothing unless nodes have it, and
then it is bounded: by pod, in all, and by how often the index is built anew for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from scheduler.model import limits

#: A pod that names more labels adds none to the index; its nodes are found by a scan.
KEYS_PER_POD_MAX = limits.LABELS_OF_A_POD_MAX
#: Keys of the index; any more are left to scans until no pod names some of them any more.
KEYS_MAX = limits.LABELS_MAX
#: To build the index costs about as much as so many scans: so many pods are found by scans first.
PATIENCE = 8


class LabelKeys:
    """Counts of label keys: of live pods that name them, and of nodes that have them."""

    def __init__(self) -> None:
        self._named: Counter[str] = Counter()
        #: The same of pods that name no more than one pod may add.
        self._counted: Counter[str] = Counter()
        self._there: Counter[str] = Counter()
        self._missing: dict[str, None] = {}
        #: Pods that asked for keys which the index lacks, since it was built.
        self.asked = 0

    def is_named(self, key: str) -> bool:
        """Whether a live pod names it."""
        return key in self._named

    def is_there(self, key: str) -> bool:
        """Whether a node has it."""
        return key in self._there

    def name(self, before: Collection[str], after: Collection[str]) -> None:
        """What a pod named, and what it names from now on; nothing where it is not there."""
        self._named.update(after)
        _less(self._named, before)
        if len(after) <= KEYS_PER_POD_MAX:
            self._counted.update(after)
        if len(before) <= KEYS_PER_POD_MAX:
            _less(self._counted, before)

    def add_labels(self, labels: Mapping[str, str]) -> None:
        """A node with these labels is there."""
        for key in labels:
            if key not in self._there and key in self._counted:
                self._missing[key] = None
                self.asked = PATIENCE  # its pods have waited for nothing else
            self._there[key] += 1

    def remove_labels(self, labels: Mapping[str, str]) -> None:
        """A node with these labels is gone."""
        _less(self._there, labels)

    def ask(self, keys: Collection[str], known: Collection[str]) -> None:
        """A pod is about to be decided that names these keys; ``known`` are those of the index."""
        if len(keys) > KEYS_PER_POD_MAX:
            return
        missing = [key for key in keys if key in self._there and key not in known]
        if missing:
            self._missing.update(dict.fromkeys(missing))
            self.asked += 1

    def due(self, known: Collection[str]) -> tuple[str, ...]:
        """All keys that the index is to have from now on; empty where it stays as it is.

        ``known`` keys that no pod names are dropped only where there is no room otherwise.
        """
        if self.asked < PATIENCE:
            return ()
        missing = [key for key in self._missing if key in self._there and key not in known]
        self._missing.clear()
        self.asked = 0
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
