"""Pods for which capacity on a node is held: preemptors, and replacements of migrations. Pure.

The capacity is not held while its pod is assumed; it is held again if the Binding fails::

    held --place--> lifted --take_back (Binding failed)--> held
                      '----- bound, or deleted ----------> over
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.crd.migration import is_for
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod

_UNKNOWN: Final = Devices()


class Nominator:
    """``held`` maps a pod's uid, or a migration's name, to the pod that needs the capacity."""

    def __init__(self) -> None:
        self.held: dict[str, Pod] = {}
        self._lifted: dict[str, Pod] = {}
        #: The nodes of our own preemptors that the watch does not show on them yet.
        self._unseen: dict[str, str] = {}
        #: The nodes that pods wait for no more, although the watch still shows them.
        self._withdrawn: dict[str, str] = {}

        #: The GPU indexes that preemptors wait for, where they are known.
        self.expected: dict[str, Devices] = {}

    def nominate(self, pod: Pod, node_name: str, devices: Devices = _UNKNOWN) -> None:
        """Our own preemptor waits for a node from now on, before its status says so."""
        if devices.numbers:
            self.expected[pod.uid] = devices
        else:
            self.expected.pop(pod.uid, None)
        self._withdrawn.pop(pod.uid, None)
        self._unseen[pod.uid] = node_name
        self.held[pod.uid] = msgspec.structs.replace(pod, nominated_node=node_name)

    def withdraw(self, uid: str) -> None:
        """A pod waits for no node any more, before its status says so."""
        self.expected.pop(uid, None)
        self._unseen.pop(uid, None)
        pod = self.held.pop(uid, None)
        if pod is not None:
            self._withdrawn[uid] = pod.nominated_node

    def withdrawn(self) -> tuple[str, ...]:
        """The pods that wait for no node any more, although their status says so."""
        return tuple(self._withdrawn)

    def note(self, pod: Pod, *, is_assumed: bool) -> None:
        """A pod's newest state: with or without a nominated node."""
        unseen = self._unseen.get(pod.uid, "")
        if unseen and (unseen == pod.nominated_node or pod.node_name or pod.is_deleting):
            del self._unseen[pod.uid]
        elif unseen:
            pod = msgspec.structs.replace(pod, nominated_node=unseen)
        if self._withdrawn and self._is_withdrawn(pod):
            return
        if pod.nominated_node and not (pod.node_name or pod.is_deleting or is_assumed):
            self.held[pod.uid] = pod
        else:
            self.held.pop(pod.uid, None)
        if pod.node_name:
            self._lifted.pop(pod.uid, None)
            self.expected.pop(pod.uid, None)

    def _is_withdrawn(self, pod: Pod) -> bool:
        if self._withdrawn.get(pod.uid) == pod.nominated_node:
            return True
        self._withdrawn.pop(pod.uid, None)
        return False

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
        self.expected.pop(uid, None)
        self.held.pop(uid, None)
        self._unseen.pop(uid, None)
        self._withdrawn.pop(uid, None)
        self._lifted.pop(uid, None)

    def hold(self, holder: Pod) -> None:
        """Hold capacity for the replacement of an open migration."""
        self.held.setdefault(holder.uid, holder)

    def release(self, migration_id: str) -> bool:
        """Release the capacity of a migration; returns whether capacity becomes free."""
        for uid in [uid for uid, other in self._lifted.items() if other.uid == migration_id]:
            del self._lifted[uid]
        return self.held.pop(migration_id, None) is not None
