"""How many pods of some shapes fit on each node and in each domain: an upper bound.

It counts what the nodes have left for the requests. What it does not see (most terms about other
pods, the layouts of MIG instances) a plan in the domain finds out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.state.node_info import NodeInfo
from scheduler.state.topology.domain_paths import ROOT, DomainPaths, Path

#: How many pods of each shape fit.
Room = tuple[int, ...]


class Shape(msgspec.Struct, frozen=True):
    """So many equal pods, and how many of them fit on each node that takes one."""

    count: int
    on_node: Mapping[str, int]

    @staticmethod
    def of(count: int, nodes: FeasibleNodes) -> Shape:
        """Count the nodes that pass the filters of a pod."""
        if _is_alone_on_node(nodes):
            return Shape(count, dict.fromkeys(nodes.every(), 1))
        return Shape(count, {name: _fits(info, nodes.pod) for name, info in nodes.every().items()})


class Rooms:
    """The room in every domain. Of ``uncounted`` pods it is not known where they fit."""

    def __init__(self, paths: DomainPaths, shapes: Sequence[Shape], uncounted: int = 0) -> None:
        self._counts = tuple(one.count for one in shapes)
        self.uncounted = uncounted
        self._nothing: Room = (0,) * len(shapes)
        self._of: dict[Path, list[int]] = {}
        for place, shape in enumerate(shapes):
            for name, count in shape.on_node.items():
                for path in (ROOT, *paths.domains_of.get(name, ())):
                    found = self._of.get(path)
                    if found is None:
                        found = self._of[path] = [0] * len(shapes)
                    found[place] += count

    def __iter__(self) -> Iterator[Path]:
        return iter(self._of)

    def of(self, path: Path) -> Room:
        """The room in one domain."""
        found = self._of.get(path)
        return self._nothing if found is None else tuple(found)

    def total(self, paths: Iterable[Path]) -> Room:
        """The room in several domains."""
        rooms = [self.of(path) for path in paths]
        return tuple(map(sum, zip(*rooms, strict=True))) if rooms else self._nothing

    def holds(self, room: Room) -> int:
        """How many of the pods fit into this room."""
        return sum(map(min, self._counts, room)) + self.uncounted


def _is_alone_on_node(nodes: FeasibleNodes) -> bool:
    """Whether a node takes one of these pods only: they use a port, or keep off each other."""
    pod, topology = nodes.pod, nodes.view.topology
    return bool(pod.host_ports) or any(
        term.topology_key == well_known.HOSTNAME and topology.is_in(term.pods, pod)
        for term in pod.affinity.required_anti
    )


def _fits(node_info: NodeInfo, pod: Pod) -> int:
    """How many of a pod fit on a node that takes one."""
    assert node_info.node is not None
    most = node_info.node.allocatable.get(well_known.PODS, 0) - len(node_info.pods)
    left = node_info.left
    for resource, need in pod.requests.items():
        if need > 0 and resource in left:
            most = min(most, left[resource] // need)
    if pod.resource_claims and node_info.dra is not None and node_info.dra.free:
        most = min(most, sum(node_info.dra.free.values()) // len(pod.resource_claims))
    return max(1, most)
