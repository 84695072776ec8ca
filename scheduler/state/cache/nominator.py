"""Pods for which capacity on a node is held: preemptors, and replacements of migrations. Pure.

The capacity is not held while its pod is assumed; it is held again if the Binding fails::

    held --place--> lifted --take_back (Binding failed)--> held
                      '----- bound, or deleted ----------> over
"""

from __future__ import annotations

from scheduler.model import well_known
from scheduler.model.crd.migration import is_for
from scheduler.model.pods.pod import Pod


class Nominator:
    """``held`` maps a pod's uid, or a migration's name, to the pod that needs the capacity."""

    def __init__(self) -> None:
        self.held: dict[str, Pod] = {}
        self._lifted: dict[str, Pod] = {}

    def note(self, pod: Pod, *, is_assumed: bool) -> None:
        """A pod's newest state: with or without a nominated node."""
        if pod.nominated_node and not (pod.node_name or pod.is_deleting or is_assumed):
            self.held[pod.uid] = pod
        else:
            self.held.pop(pod.uid, None)
        if pod.node_name:
            self._lifted.pop(pod.uid, None)

    def place(self, pod: Pod) -> None:
        """A pod is assumed: it uses the capacity held for it."""
        self.held.pop(pod.uid, None)
        move = self.held.get(pod.annotations.get(well_known.MIGRATION, ""))
        if move is not None and is_for(move, pod):
            del self.held[move.uid]
            self._lifted[pod.uid] = move

    def awaited(self, pod: Pod) -> str:
        """The node on which an open migration holds capacity for a pod; empty if none does."""
        move = self.held.get(pod.annotations.get(well_known.MIGRATION, ""))
        return move.nominated_node if move is not None and is_for(move, pod) else ""

    def take_back(self, uid: str) -> None:
        """The placement failed."""
        move = self._lifted.pop(uid, None)
        if move is not None:
            self.held[move.uid] = move

    def delete_pod(self, uid: str) -> None:
        """A pod was deleted."""
        self.held.pop(uid, None)
        self._lifted.pop(uid, None)

    def hold(self, holder: Pod) -> None:
        """Hold capacity for the replacement of an open migration."""
        self.held.setdefault(holder.uid, holder)

    def release(self, migration_id: str) -> bool:
        """Release the capacity of a migration; returns whether capacity becomes free."""
        for uid in [uid for uid, other in self._lifted.items() if other.uid == migration_id]:
            del self._lifted[uid]
        return self.held.pop(migration_id, None) is not None
