"""Which free GPUs of a node a pod gets: those that are near each other, where that is known. Pure.

A place is the NUMA node and the PCIe root of a GPU. The fewest NUMA nodes are used, and in them the
fewest PCIe roots; of those that are enough the ones with the fewest free GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

#: The values far first: NUMA node, PCIe root; None where one is not published.
Place = tuple[object, ...]


def nearest(free: Sequence[int], count: int, places: Mapping[int, Place]) -> tuple[int, ...]:
    """So many of the free indexes, ascending; the lowest ones where no place is known."""
    return tuple(sorted(_nearest(free, count, places, 0))) if places else tuple(free[:count])


def _nearest(
    free: Sequence[int], count: int, places: Mapping[int, Place], depth: int
) -> Sequence[int]:
    if count >= len(free) or depth == max(map(len, places.values())):
        return free[:count]
    groups: dict[object, list[int]] = {}
    for index in free:
        place = places.get(index, ())
        groups.setdefault(place[depth] if depth < len(place) else None, []).append(index)
    left = sorted(groups.values(), key=lambda group: (-len(group), group[0]))
    chosen: list[int] = []
    while len(chosen) < count:
        lacking = count - len(chosen)
        enough = [group for group in left if len(group) >= lacking]
        group = min(enough, key=lambda one: (len(one), one[0])) if enough else left[0]
        left.remove(group)
        chosen += _nearest(group, min(lacking, len(group)), places, depth + 1)
    return chosen
