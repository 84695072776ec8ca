"""The levels of the network topology, far first: which label keys say where nodes are.

Where the configuration names none, they are detected: region and zone, then the first family of
keys that nearly all GPU nodes have. Events of nodes keep the
counts; no question walks over nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.state.counts import add

#: A label is a level if so many of 100 GPU nodes have it.
SHARE_PERCENT: Final = 90
#: Keys that no configuration has to name: they are nearer than every level.
_NEAREST: Final = (well_known.NVLINK_CLIQUE, well_known.HOSTNAME)
_PLACES: Final = (well_known.REGION, well_known.ZONE)
#: The first family counts that a cluster has, after Topograph's tiers.
FAMILIES: Final = (
    well_known.AWS_NETWORK,
    well_known.GKE_NETWORK,
    well_known.OCI_NETWORK,
    well_known.EXAMPLE_NETWORK,
)
_FIXED: Final = (*_PLACES, *(key for family in FAMILIES for key in family))


def keys_down_to(key: str, levels: tuple[str, ...]) -> tuple[str, ...]:
    """The levels above a key, far first, and the key; a key that is no level stands alone."""
    if key in levels:
        return levels[: levels.index(key) + 1]
    return (*levels, key) if key in _NEAREST else (key,)


class Levels:
    """How many GPU nodes have each key."""

    def __init__(self) -> None:
        self._keys_of: dict[str, tuple[str, ...]] = {}
        self._counts: Counter[str] = Counter()
        self._detected: tuple[str, ...] | None = None

    def change(self, name: str, node: Node | None) -> None:
        """A node is new or changed, or gone."""
        before = self._keys_of.pop(name, None)
        after = tuple(_keys(node)) if node is not None and node.has_gpus else None
        if after is not None:
            self._keys_of[name] = after
        if before == after:
            return
        for key in before or ():
            add(self._counts, key, -1)
        for key in after or ():
            add(self._counts, key, 1)
        self._detected = None

    @property
    def detected(self) -> tuple[str, ...]:
        """The keys that nearly all GPU nodes have, far first."""
        if self._detected is None:
            self._detected = tuple(self._detect())
        return self._detected

    def _detect(self) -> Iterator[str]:
        yield from filter(self._is_everywhere, _PLACES)
        for family in (self._tiers(), *FAMILIES):
            found = [key for key in family if self._is_everywhere(key)]
            if found:
                yield from found
                return

    def _tiers(self) -> list[str]:
        """The tiers of Topograph; 0 is nearest."""
        keys = [key for key in self._counts if _tier(key) is not None]
        return sorted(keys, key=lambda key: -(_tier(key) or 0))

    def _is_everywhere(self, key: str) -> bool:
        return 100 * self._counts.get(key, 0) >= SHARE_PERCENT * max(1, len(self._keys_of))


def _keys(node: Node) -> Iterator[str]:
    labels = node.labels
    yield from (key for key in _FIXED if key in labels)
    yield from (key for key in labels if _tier(key) is not None)


def _tier(key: str) -> int | None:
    number = key.removeprefix(well_known.TOPOGRAPH_TIER)
    is_tier = number != key and number.isascii() and number.isdigit() and len(number) <= 3
    return int(number) if is_tier else None
