"""Where a single pod is to be placed that requests a level of the topology: near its family.

The first pod of a family gets the tightest domain that holds all of them that wait now; each later
one a node in the domains that the family uses already, as far as these have room.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.decide.topology.choice import Choice, Scope
from scheduler.decide.topology.rooms import Rooms, Shape
from scheduler.plugins.topology.plugin import levels_of


def regions_near_family(nodes: FeasibleNodes) -> Iterator[frozenset[str]]:
    """Sets of nodes for one pod, the best one first; the feasible nodes outside come after them."""
    pod, topology = nodes.pod, nodes.view.topology
    if pod.topology is None:
        return
    scope = Scope.of(pod.topology, levels_of(nodes.view, nodes.pipeline))
    paths, families = topology.paths(scope.keys), topology.families
    waiting = families.waiting(pod)
    rooms = Rooms(paths, [Shape.of(waiting, nodes)])
    choice = Choice(scope, paths, rooms, families.nodes_of(pod))
    for want in dict.fromkeys((waiting, min(waiting, choice.most()))):
        if want > 0:
            for region in choice.regions(want):
                yield region.nodes
