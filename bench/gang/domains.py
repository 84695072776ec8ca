"""How many racks the groups of a round are spread over, beside the fewest that had room. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping


class Domains:
    """The free devices of each domain while groups are placed one after the other."""

    def __init__(self, domain_of: Mapping[str, str], devices: int) -> None:
        self._domain_of = domain_of
        self._free = Counter[str]()
        for domain in domain_of.values():
            self._free[domain] += devices

    def least(self, size: int) -> int:
        """The fewest domains that hold a group of this size now: the emptiest ones."""
        count = 0
        for _, free in self._free.most_common():
            if size <= 0:
                break
            size -= free
            count += 1
        if size > 0:
            raise RuntimeError(f"the cluster lacks {size} devices")
        return count

    def take(self, nodes: Iterable[str]) -> float:
        """Enter a group with one device on each of these nodes; returns the number of its domains
        by the fewest possible.
        """
        taken = Counter(self._domain_of[name] for name in nodes)
        least = self.least(taken.total())
        self._free.subtract(taken)
        return len(taken) / least
