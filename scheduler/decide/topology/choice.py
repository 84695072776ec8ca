"""The domains in which the pods of a group are to be placed, the best ones first. Pure.

A group stays within one domain of its *far* level (``required``), or of the cluster, and uses as
few domains of its *near* level (``preferred``) as possible. One near domain that holds the group is
best, the tightest of them; else the near domains of one domain of the next farther level, and so
on. Ties are broken by the room that is left, then by name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import msgspec

from scheduler.decide.topology.rooms import Rooms
from scheduler.model.topology.request import TopologyRequest
from scheduler.state.topology.domain_paths import ROOT, DomainPaths, Path
from scheduler.state.topology.levels import keys_down_to


class Scope(msgspec.Struct, frozen=True):
    """The label keys of a request, far first, and how many of them make its two levels.

    ``far`` is 0 where nothing is required.
    """

    keys: tuple[str, ...]
    far: int
    near: int

    @staticmethod
    def of(request: TopologyRequest, levels: tuple[str, ...]) -> Scope:
        """The keys of both levels in one order."""
        far = keys_down_to(request.required, levels) if request.required else ()
        near = keys_down_to(request.preferred, levels) if request.preferred else ()
        keys = (*far, *(key for key in near if key not in far))
        depth = keys.index(request.preferred) + 1 if request.preferred else len(far)
        return Scope(keys, len(far), max(depth, len(far)))


class Region(msgspec.Struct, frozen=True):
    """Near domains in which a group is to be placed; ``distance`` is smaller where
    they are nearer to each other: the levels above their own, nodes without the label, the number.
    """

    domains: tuple[Path, ...]
    nodes: frozenset[str]
    distance: tuple[int, bool, int]


_Rank = tuple[bool, int, int, tuple[tuple[bool, str], ...]]


class Choice:
    """The choice for one group; ``used`` are the nodes of its members that are placed."""

    def __init__(
        self, scope: Scope, paths: DomainPaths, rooms: Rooms, used: Collection[str]
    ) -> None:
        self.scope = scope
        self.rooms = rooms
        self._paths = paths
        every = [paths.domains_of[name] for name in used if name in paths.domains_of]
        self._used = [one for one in every if not scope.far or one[scope.far - 1][-1] is not None]
        #: The far domains that the placed members leave; empty: all.
        self.pinned = {one[scope.far - 1] for one in self._used if scope.far}
        self._of_length: dict[int, list[Path]] = {}
        for path in (ROOT, *paths.nodes_of) if rooms.uncounted else rooms:
            if self._is_allowed(path):
                self._of_length.setdefault(len(path), []).append(path)

    def regions(self, want: int) -> Iterator[Region]:
        """The regions with room for so many pods, the best one first."""
        seen: set[tuple[Path, ...]] = set()
        for length in range(self.scope.near, self.scope.far - 1, -1):
            for domains in self._at(length, want):
                if domains not in seen:
                    seen.add(domains)
                    yield self._region(domains, self.scope.near - length)
        if self.scope.near > self.scope.far > 0:
            for domains in self._at(self.scope.far, want, is_whole=True):
                if domains not in seen:
                    yield self._region(domains, self.scope.near - self.scope.far)

    def far_domains(self) -> list[tuple[Path, int]]:
        """The domains of the far level, with how many pods each has room for; most first."""
        far = self.scope.far
        every = [path for path in self._paths.nodes_of if len(path) == far]
        every = [path for path in every if self._is_allowed(path)]
        found = [(path, self.rooms.holds(self.rooms.of(path))) for path in every]
        return sorted(found, key=lambda one: (-one[1], _names((one[0],))))

    def most(self) -> int:
        """How many pods the roomiest near domain holds."""
        every = self._of_length.get(self.scope.near, [])
        return max((self.rooms.holds(self.rooms.of(path)) for path in every), default=0)

    def _is_allowed(self, path: Path) -> bool:
        far = self.scope.far
        if not far or len(path) < far:
            return True
        if path[far - 1] is None:
            return False
        return path[:far] in self.pinned if self.pinned else True

    def _at(self, length: int, want: int, *, is_whole: bool = False) -> list[tuple[Path, ...]]:
        """The near domains to use in each domain of a level that has room; the best ones first."""
        near = self._of_length.get(self.scope.near, [])
        inside: dict[Path, list[Path]] = {}
        for path in near:
            inside.setdefault(path[:length], []).append(path)
        if self._used:
            starts = {one[length - 1] if length else ROOT for one in self._used}
            groups = [
                [path for start in sorted(starts, key=_name) for path in inside.get(start, ())]
            ]
        else:
            groups = list(inside.values())
        found: list[tuple[_Rank, tuple[Path, ...]]] = []
        for group in groups:
            if self.rooms.holds(self.rooms.total(group)) < want:
                continue
            chosen = group if is_whole or length == self.scope.near else self._fewest(group, want)
            found.append((self._rank(chosen), tuple(chosen)))
        return [domains for _, domains in sorted(found, key=lambda one: one[0])]

    def _rank(self, domains: Sequence[Path]) -> _Rank:
        return (_lacks(domains), len(domains), sum(self.rooms.total(domains)), _names(domains))

    def _fewest(self, group: Sequence[Path], want: int) -> list[Path]:
        """As few of these near domains as hold the pods: those in use, then the roomiest ones; the
        last one is the tightest that suffices.
        """
        used = {one[self.scope.near - 1] for one in self._used}

        def order(path: Path) -> tuple[object, ...]:
            lacks = bool(path) and path[-1] is None
            return (path not in used, lacks, -self.rooms.holds(self.rooms.of(path)), _name(path))

        left = sorted(group, key=order)
        chosen: list[Path] = []
        while left and self.rooms.holds(self.rooms.total(chosen)) < want:
            chosen.append(left.pop(0))
        last = chosen.pop()
        if last in used:
            return [*chosen, last]
        tighter = [
            path for path in left if self.rooms.holds(self.rooms.total([*chosen, path])) >= want
        ]
        return [*chosen, min([last, *tighter], key=lambda path: self._rank([path]))]

    def _region(self, domains: tuple[Path, ...], levels: int) -> Region:
        distance = (levels, _lacks(domains), len(domains))
        if domains == (ROOT,):
            return Region(domains, frozenset(self._paths.domains_of), distance)
        nodes = frozenset().union(*(self._paths.nodes_of[path] for path in domains))
        return Region(domains, nodes, distance)


def _lacks(domains: Sequence[Path]) -> bool:
    """Whether one of the domains is that of the nodes without the label."""
    return any(path[-1] is None for path in domains if path)


def _name(path: Path) -> tuple[tuple[bool, str], ...]:
    return tuple((value is None, value or "") for value in path)


def _names(paths: Sequence[Path]) -> tuple[tuple[bool, str], ...]:
    return tuple(part for path in paths for part in _name(path))
