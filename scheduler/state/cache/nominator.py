"""Who is held room for on a node: pods that preempted for it, and replacements of open moves. Pure.

A hold ends while the one that it is for is assumed to be placed, and comes back with him if his
Binding fails::

    held --place--> lifted --take_back (Binding failed)--> held
                      '----- bound, or gone -------------> over
"""

from __future__ import annotations

from scheduler.model import well_known
from scheduler.model.crd.migration import is_for
from scheduler.model.pod import Pod


class Nominator:
    """``held`` maps a pod's uid, or a ticket's name, to who needs the room."""

    def __init__(self) -> None:
        self.held: dict[str, Pod] = {}
        self._lifted: dict[str, Pod] = {}

    def note(self, pod: Pod, *, is_assumed: bool) -> None:
        """A pod's newest state: it waits for the node that it is nominated for, or does not."""
        if pod.nominated_node and not (pod.node_name or pod.is_deleting or is_assumed):
            self.held[pod.uid] = pod
        else:
            self.held.pop(pod.uid, None)
        if pod.node_name:
            self._lifted.pop(pod.uid, None)

    def place(self, pod: Pod) -> None:
        """A pod is assumed to be placed: what was held for it is its own now."""
        self.held.pop(pod.uid, None)
        move = self.held.get(pod.annotations.get(well_known.MOVE, ""))
        if move is not None and is_for(move, pod):
            del self.held[move.uid]
            self._lifted[pod.uid] = move

    def awaited(self, pod: Pod) -> str:
        """The node on which an open move holds room for a pod; empty where none does."""
        move = self.held.get(pod.annotations.get(well_known.MOVE, ""))
        return move.nominated_node if move is not None and is_for(move, pod) else ""

    def take_back(self, uid: str) -> None:
        """It was not placed after all."""
        move = self._lifted.pop(uid, None)
        if move is not None:
            self.held[move.uid] = move

    def delete_pod(self, uid: str) -> None:
        """A pod is gone."""
        self.held.pop(uid, None)
        self._lifted.pop(uid, None)

    def hold(self, holder: Pod) -> None:
        """An open ticket holds what its replacement needs."""
        self.held.setdefault(holder.uid, holder)

    def release(self, ticket_id: str) -> bool:
        """A ticket holds nothing any more; whether anybody could have noticed that it did."""
        for uid in [uid for uid, other in self._lifted.items() if other.uid == ticket_id]:
            del self._lifted[uid]
        return self.held.pop(ticket_id, None) is not None
