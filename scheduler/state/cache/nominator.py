"""Pods for which capacity on a node is held: preemptors, and replacements of migrations. Pure.

The capacity is not held while its pod is assumed; it is held again if the Binding fails::

    held --place--> lifted --take_back (Binding failed)--> held
                      '----- bound, or deleted ----------> over

A method that ends a hold returns the pods that held something until then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.crd.migration import awaited_node, is_for
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod

_UNKNOWN: Final = Devices()
_NOBODY: Final[frozenset[str]] = frozenset()


class Reserved(msgspec.Struct, frozen=True):
    """The members of the gang that reserves, and for how many seconds more it may."""

    uids: dict[str, None]
    left_s: float


class Nominator:
    """``held`` maps a pod's uid, or a migration's name, to the pod that needs the capacity."""

    def __init__(self) -> None:
        self.held: dict[str, Pod] = {}
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._lifted: dict[str, Pod] = {}
        #: The nodes of our own preemptors that the watch does not show on them yet.
        self._unseen: dict[str, str] = {}
        #: The nodes that pods wait for no more, although the watch still shows them.
        self._withdrawn: dict[str, str] = {}

        #: The gang that reserves, if one does; its members are among those held.
        self.reserved: Reserved | None = None
        #: The GPU indexes that preemptors wait for, where they are known.
        self.expected: dict[str, Devices] = {}
        #: The devices that their claims are to get, and those that a migration holds for claims.
        self.plans: dict[str, ClaimPlan] = {}

    def at(self, node_name: str) -> Collection[Pod]:
        """The pods that hold capacity on a node."""
        return self._by_node.get(node_name, {}).values()

    def yields_to(self, pod: Pod) -> Collection[str]:
        """The pods that let this pod take their room: members of the gang that reserves, where
        the pod ends before the reservation does.
        """
        if self.reserved is None or pod.active_deadline_s is None:
            return _NOBODY
        return self.reserved.uids if pod.active_deadline_s <= self.reserved.left_s else _NOBODY

    def behind(self, pod: Pod) -> frozenset[str]:
        """The pods of the same priority that wait for the node of this one, and began after it:
        their plans left it its room. After a new start the pods are in the order of their list.
        """
        own = self.held.get(pod.uid)
        there = self._by_node[own.nominated_node] if own is not None else {}
        if len(there) < 2:
            return _NOBODY
        uids = list(there)
        later = uids[uids.index(pod.uid) + 1 :]
        return frozenset(uid for uid in later if there[uid].priority == pod.priority)

    def is_reserved(self, uid: str) -> bool:
        """Whether a pod holds its room as a member of the gang that reserves."""
        return self.reserved is not None and uid in self.reserved.uids

    def nominate(
        self,
        pod: Pod,
        node_name: str,
        devices: Devices = _UNKNOWN,
        plan: ClaimPlan | None = None,
    ) -> list[Pod]:
        """Our own preemptor waits for a node from now on, before its status says so."""
        self._forget_devices(pod.uid)
        if devices.numbers:
            self.expected[pod.uid] = devices
        if plan is not None:
            self.plans[pod.uid] = plan
        self._withdrawn.pop(pod.uid, None)
        self._unseen[pod.uid] = node_name
        return self._hold(pod.uid, msgspec.structs.replace(pod, nominated_node=node_name))

    def expect(self, uid: str, plan: ClaimPlan | None) -> ClaimPlan | None:
        """The devices that the claims of a nominated pod are to get, as its last decision says;
        with None the pod holds none, and the former plan is returned.
        """
        if plan is None:
            return self.plans.pop(uid, None)
        self.plans[uid] = plan
        return None

    def withdraw(self, uid: str) -> list[Pod]:
        """A pod waits for no node any more, before its status says so."""
        self._forget_devices(uid)
        self._unseen.pop(uid, None)
        ended = self._drop(uid)
        self._withdrawn.update((uid, pod.nominated_node) for pod in ended)
        return ended

    def withdrawn(self) -> tuple[str, ...]:
        """The pods that wait for no node any more, although their status says so."""
        return tuple(self._withdrawn)

    def note(self, pod: Pod, *, is_assumed: bool) -> list[Pod]:
        """A pod's newest state: with or without a nominated node."""
        if pod.node_name and not self._is_any:  # most pods
            return []
        unseen = self._unseen.get(pod.uid, "")
        if unseen and (unseen == pod.nominated_node or pod.node_name or pod.is_deleting):
            del self._unseen[pod.uid]
        elif unseen:
            pod = msgspec.structs.replace(pod, nominated_node=unseen)
        if self._withdrawn and self._is_withdrawn(pod):
            return []
        waits = pod.nominated_node and not (pod.node_name or pod.is_deleting or is_assumed)
        ended = self._hold(pod.uid, pod) if waits else self._drop(pod.uid)
        if pod.node_name:
            self._lifted.pop(pod.uid, None)
            self._forget_devices(pod.uid)
        return ended

    @property
    def _is_any(self) -> bool:
        """Whether anything is noted about any pod."""
        return bool(
            self.held
            or self._lifted
            or self._unseen
            or self._withdrawn
            or self.expected
            or self.plans
        )

    def _is_withdrawn(self, pod: Pod) -> bool:
        if self._withdrawn.get(pod.uid) == pod.nominated_node:
            return True
        self._withdrawn.pop(pod.uid, None)
        return False

    def place(self, pod: Pod) -> list[Pod]:
        """A pod is assumed: it uses the capacity held for it."""
        ended = self._drop(pod.uid)
        move = self.held.get(pod.annotations.get(well_known.MIGRATION, ""))
        if move is not None and is_for(move, pod):
            self._lifted[pod.uid] = move
            ended += self._drop(move.uid)
        return ended

    def awaited(self, pod: Pod) -> str:
        """The node on which an open migration holds capacity for a pod; empty if none does."""
        return awaited_node(self.held, pod)

    def take_back(self, uid: str) -> None:
        """The placement failed."""
        move = self._lifted.pop(uid, None)
        if move is not None:
            self._hold(move.uid, move)

    def delete_pod(self, uid: str) -> list[Pod]:
        """A pod was deleted."""
        self._forget_devices(uid)
        self._unseen.pop(uid, None)
        self._withdrawn.pop(uid, None)
        self._lifted.pop(uid, None)
        return self._drop(uid)

    def hold(self, holder: Pod, plan: ClaimPlan | None = None) -> None:
        """Hold capacity, and devices, for the replacement of an open migration."""
        if holder.uid not in self.held:
            self._hold(holder.uid, holder)
            if plan is not None:
                self.plans[holder.uid] = plan

    def restore(
        self,
        held: Iterable[Pod],
        order: Iterable[str],
        expected: Mapping[str, Devices],
        plans: Mapping[str, ClaimPlan],
    ) -> None:
        """Hold what a snapshot shows as held, in its order."""
        for pod in held:
            self._hold(pod.uid, pod)
        for uid in order:
            for pod in self._drop(uid):
                self._hold(uid, pod)
        self.expected.update(expected)
        self.plans.update(plans)

    def _forget_devices(self, uid: str) -> None:
        self.expected.pop(uid, None)
        self.plans.pop(uid, None)

    def release(self, migration_id: str) -> list[Pod]:
        """Release the capacity of a migration."""
        for uid in [uid for uid, other in self._lifted.items() if other.uid == migration_id]:
            del self._lifted[uid]
        self.plans.pop(migration_id, None)
        return self._drop(migration_id)

    def _hold(self, uid: str, pod: Pod) -> list[Pod]:
        """A pod holds its node from now on; what it was before, if it held something else."""
        before = self.held.get(uid)
        if before is not None and before.nominated_node != pod.nominated_node:
            self._drop(uid)
        self.held[uid] = pod
        self._by_node.setdefault(pod.nominated_node, {})[uid] = pod
        return [] if before is None or _holds_as_much(pod, before) else [before]

    def _drop(self, uid: str) -> list[Pod]:
        pod = self.held.pop(uid, None)
        if pod is None:
            return []
        there = self._by_node[pod.nominated_node]
        del there[uid]
        if not there:
            del self._by_node[pod.nominated_node]
        return [pod]


def _holds_as_much(pod: Pod, before: Pod) -> bool:
    """Whether a nominated pod still holds what it held before."""
    return pod.nominated_node == before.nominated_node and pod.requests == before.requests
