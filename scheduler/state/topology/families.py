"""The pods that stay near each other in the topology: the members of a group or a workload.

Only pods that request a level of the topology are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from scheduler.model.pods.pod import Pod
from scheduler.state.counts import add

_NONE: Final[Mapping[str, int]] = {}


class Families:
    """Living members by family, and on which nodes those are that stay."""

    def __init__(self) -> None:
        self._members: dict[str, set[str]] = {}
        self._placed: dict[str, Counter[str]] = {}

    def upsert(self, pod: Pod, before: Pod | None) -> None:
        """A pod's newest state."""
        if before is not None and before.topology is not None and before.family != pod.family:
            self.delete(before)
        if pod.topology is not None:
            self._members.setdefault(pod.family, set()).add(pod.uid)
        elif before is not None and before.topology is not None:
            self.delete(before)

    def delete(self, pod: Pod) -> None:
        """A pod has ended."""
        members = self._members.get(pod.family)
        if members is not None:
            members.discard(pod.uid)
            if not members:
                del self._members[pod.family]

    def count(self, pod: Pod, node_name: str, delta: int) -> None:
        """A pod is placed (1), or not any more (-1); one that is being deleted does not stay."""
        if pod.is_deleting:
            return
        placed = self._placed.setdefault(pod.family, Counter())
        add(placed, node_name, delta)
        if not placed:
            del self._placed[pod.family]

    def nodes_of(self, pod: Pod) -> Mapping[str, int]:
        """How many of the pod's family are on each node."""
        return self._placed.get(pod.family, _NONE)

    def waiting(self, pod: Pod) -> int:
        """How many of the pod's family have no node, this pod among them."""
        members = len(self._members.get(pod.family, ()))
        return max(1, members - sum(self.nodes_of(pod).values()))
