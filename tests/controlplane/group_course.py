"""A random course of groups, and what judges it from the pods that the API server has."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.model import well_known
from tests.controlplane.workloads import Json, node_of, pod

GPU: Final = "nvidia.com/gpu"
#: Orders that the offline packing tries beside the largest and the smallest group first.
ORDERS: Final = 50


class Group(NamedTuple):
    """``size`` equal members with ``gpus`` each, of which ``minimum`` start together."""

    name: str
    size: int
    minimum: int
    gpus: int

    def member(self, rank: int, suffix: str = "") -> Json:
        """One member."""
        return pod(
            f"{self.name}-{rank}{suffix}",
            labels={well_known.GROUP: self.name},
            annotations={well_known.GROUP_MIN: str(self.minimum)},
            limits={GPU: str(self.gpus)},
        )


def random_groups(rng: random.Random, count: int, largest: int) -> list[Group]:
    """Half of the groups need all of their members, the others at least half of them."""
    groups = []
    for number in range(count):
        size = rng.randint(2, largest)
        minimum = size if rng.random() < 0.5 else rng.randint(math.ceil(size / 2), size)
        groups.append(Group(f"g{number:02}", size, minimum, rng.choice((1, 1, 1, 2))))
    return groups


def group_of(item: Json) -> str:
    """The name of a pod's group."""
    return str(item["metadata"]["labels"][well_known.GROUP])


def gpus_of(item: Json) -> int:
    """The GPUs that a member requests."""
    return int(item["spec"]["containers"][0]["resources"]["limits"][GPU])


class Members(NamedTuple):
    """The members of one group that exist: with a node, and without."""

    bound: int
    waiting: int


def members(items: Iterable[Json]) -> dict[str, Members]:
    """The members of each group."""
    every = Counter((group_of(item), bool(node_of(item))) for item in items)
    names = {name for name, _ in every}
    return {name: Members(every[name, True], every[name, False]) for name in sorted(names)}


class Cluster:
    """Nodes with so many GPUs each."""

    def __init__(self, nodes: Collection[str], gpus: int) -> None:
        self._gpus = dict.fromkeys(nodes, gpus)

    def free(self, items: Iterable[Json]) -> Counter[str]:
        """The free GPUs of each node; AssertionError if a node has less than none."""
        free = Counter(self._gpus)
        for item in items:
            if node_of(item):
                free[node_of(item)] -= gpus_of(item)
        assert min(free.values()) >= 0, f"a GPU has two pods: {free}"
        return free

    def used(self, items: Sequence[Json]) -> int:
        """The GPUs that are in use."""
        return sum(self._gpus.values()) - self.free(items).total()

    def startable(self, groups: Mapping[str, Group], items: Sequence[Json]) -> list[str]:
        """The groups whose waiting members could get nodes now: a settled cluster has none.

        A group that runs needs no more members than wait; another one needs its minimum.
        """
        free = self.free(items)
        found = []
        for name, (bound, waiting) in members(items).items():
            group = groups[name]
            need = max(1, group.minimum - bound)
            need = min(need, waiting) if bound else need
            if 0 < need <= waiting and need <= sum(one // group.gpus for one in free.values()):
                found.append(name)
        return found

    def complete(self, groups: Mapping[str, Group], items: Iterable[Json]) -> list[str]:
        """The groups that wait and lack nothing but room."""
        return [
            name
            for name, (bound, waiting) in members(items).items()
            if not bound and waiting >= groups[name].minimum
        ]

    def packed(self, groups: Mapping[str, Group], items: Sequence[Json], seed: int) -> int:
        """The GPUs that an offline packing of all members uses, which may move every pod.

        Group by group: the minimum of each one has places, or none of it; then the members above
        the minima. A member goes to the fullest node with room. The best result of many orders of
        the groups counts.
        """
        every = [
            (groups[name], bound + waiting)
            for name, (bound, waiting) in members(items).items()
            if bound or bound + waiting >= groups[name].minimum
        ]
        rng = random.Random(seed)
        orders = [sorted(every, key=lambda one: one[1] * one[0].gpus * way) for way in (1, -1)]
        orders += [rng.sample(every, len(every)) for _ in range(ORDERS)]
        return max((self._pack(order) for order in orders), default=0)

    def _pack(self, order: Sequence[tuple[Group, int]]) -> int:
        free = list(self._gpus.values())
        extra = []
        for group, count in order:
            need = min(group.minimum, count)
            if _fill(free, group.gpus, need, is_whole=True):
                extra.append((group, count - need))
        for group, count in extra:
            _fill(free, group.gpus, count, is_whole=False)
        return sum(self._gpus.values()) - sum(free)


def _fill(free: list[int], gpus: int, count: int, *, is_whole: bool) -> bool:
    """Take room for equal members on the fullest nodes; all of them have room, or none is taken."""
    if is_whole and sum(one // gpus for one in free) < count:
        return False
    for at in sorted(range(len(free)), key=free.__getitem__):
        taken = min(count, free[at] // gpus)
        free[at] -= taken * gpus
        count -= taken
    return True


class Halves:
    """For how long groups have had some nodes and less than their minimum.

    The ``excused`` groups are not counted: the test took a member with a node away.
    """

    def __init__(self, groups: Mapping[str, Group]) -> None:
        self._groups = groups
        self._since: dict[str, float] = {}
        self.excused: set[str] = set()
        self.longest_s = 0.0

    def see(self, items: Iterable[Json]) -> None:
        """Take a list of all pods."""
        now = time.monotonic()
        for name, (bound, _) in members(items).items():
            if name not in self.excused and 0 < bound < self._groups[name].minimum:
                self.longest_s = max(self.longest_s, now - self._since.setdefault(name, now))
            else:
                self._since.pop(name, None)
