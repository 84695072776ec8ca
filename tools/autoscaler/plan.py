"""Decides which nodes of one node group to add and to remove. Pure.

The simulation counts NVIDIA's resources and node selectors only. It knows nothing of groups, quotas
and maps, as the autoscalers do not: what helps is the scheduler's to say, by the reason on the pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tools.autoscaler.contract import Json, Reading, node_of, nominated_node, requests_node

#: The label of the nodes that the autoscaler made, with the name of their group.
GROUP_LABEL = "example.com/node-group"
DEVICES = "nvidia.com/"
ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class NodeGroup:
    """``template`` is a Node object without a name; at most ``nodes_max`` are made of it."""

    name: str
    template: Json
    nodes_max: int


@dataclass(frozen=True)
class Plan:
    """``add`` nodes, ``remove`` these; ``empty`` ones are removed if they still are next time."""

    add: int = 0
    remove: tuple[str, ...] = ()
    empty: frozenset[str] = frozenset()


@dataclass
class _Node:
    """What is free on a node; ``is_used`` by a pod that sits there or is expected."""

    labels: Mapping[str, str]
    free: Counter[str]
    is_used: bool = False

    def take(self, pod: Json) -> bool:
        """Put a pod on the node, if it fits."""
        wanted = _devices_of(pod)
        selector = pod["spec"].get("nodeSelector") or {}
        if not selector.items() <= self.labels.items():
            return False
        if any(self.free[name] < count for name, count in wanted.items()):
            return False
        self.put(pod)
        return True

    def put(self, pod: Json) -> None:
        """Count a pod that is there."""
        self.free.subtract(_devices_of(pod))
        self.is_used = True


def plan(
    pods: Iterable[Json],
    nodes: Iterable[Json],
    group: NodeGroup,
    reading: Reading,
    empty_before: frozenset[str] = frozenset(),
) -> Plan:
    """What to add and to remove; a node is removed that was empty at the last time, too."""
    living = [pod for pod in pods if pod.get("status", {}).get("phase") not in ENDED]
    there = {node["metadata"]["name"]: _node(node) for node in nodes}
    ours = [name for name, one in there.items() if one.labels.get(GROUP_LABEL) == group.name]
    for pod in living:
        _count(pod, there, reading)
    new = _added(living, there, group, reading, group.nodes_max - len(ours))
    empty = frozenset(name for name in ours if not there[name].is_used)
    remove = tuple(sorted(empty & empty_before))
    return Plan(add=len(new), remove=remove, empty=empty - set(remove))


def _count(pod: Json, there: Mapping[str, _Node], reading: Reading) -> None:
    """Count a pod where it is bound or expected. On the node that it waits for, Karpenter counts
    nothing, but keeps the node.
    """
    if (node := there.get(node_of(pod))) is not None:
        if not _is_of_every_node(pod):
            node.put(pod)
    elif (node := there.get(nominated_node(pod))) is not None:
        if reading is Reading.CLUSTER_AUTOSCALER:
            node.put(pod)
        node.is_used = True


def _added(
    living: Iterable[Json],
    there: Mapping[str, _Node],
    group: NodeGroup,
    reading: Reading,
    most: int,
) -> list[_Node]:
    """The new nodes for the pods that request one and fit on no node that exists."""
    new: list[_Node] = []
    for pod in living:
        if not requests_node(pod, reading):
            continue
        if any(node.take(pod) for node in (*there.values(), *new)):
            continue
        another = _node(group.template)
        if len(new) < most and another.take(pod):
            new.append(another)
    return new


def _node(node: Json) -> _Node:
    allocatable = node.get("status", {}).get("allocatable") or {}
    if node.get("spec", {}).get("unschedulable"):
        allocatable = {}
    free = {name: int(count) for name, count in allocatable.items() if name.startswith(DEVICES)}
    return _Node(node["metadata"].get("labels") or {}, Counter(free))


def _devices_of(pod: Json) -> Counter[str]:
    found: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        limits = container.get("resources", {}).get("limits") or {}
        found.update({name: int(n) for name, n in limits.items() if name.startswith(DEVICES)})
    return found


def _is_of_every_node(pod: Json) -> bool:
    return any(one["kind"] == "DaemonSet" for one in pod["metadata"].get("ownerReferences", ()))
