"""Which allocations end with which pods.

kube-controller-manager deallocates a claim when the last pod in ``status.reservedFor`` has ended
(``controller/resourceclaim`` syncClaim). It deletes a claim that was created for a pod with the
pod. Until then the devices are in use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from scheduler.model.dra.device import DeviceId
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.dra.store import DraStore

_NO_PODS: Final[frozenset[str]] = frozenset()


class AllocationEnd(msgspec.Struct, frozen=True):
    """What ends a claim's allocation: the end of all ``pods`` (uids), and that of its ``owner`` if
    it ``is_idle``. One that ``is_kept`` has a consumer that is no pod.
    """

    pods: frozenset[str]
    owner: str = ""
    is_idle: bool = False
    is_kept: bool = False

    def comes_with(self, gone: Collection[str]) -> bool:
        """Whether the end of these pods (uids) is enough."""
        if self.is_kept or (self.is_idle and self.owner not in gone):
            return False
        return all(uid in gone for uid in self.pods)


class ClaimUse(msgspec.Struct, frozen=True):
    """The users of the claims of a cluster state: ``pods`` are all living pods by uid, ``assumed``
    those that are on their way to a node.
    """

    store: DraStore
    pods: Mapping[str, Pod]
    assumed: Collection[str]

    def at(self, node: Node) -> Iterator[str]:
        """The keys of the claims that have devices of a node's pools; one may come more than
        once.
        """
        store = self.store
        for pool in store.pools.on_node(node.name, node.labels):
            for name in store.in_use.of_pool(pool.id):
                yield from store.holders.of(DeviceId(*pool.id, name))

    def ends_at(self, node: Node) -> dict[str, AllocationEnd]:
        """When the allocations of a node's devices end, by the claims' keys."""
        return {key: self.end_of(key) for key in self.at(node)}

    def ends(self, key: str, gone: Collection[str] = _NO_PODS) -> bool:
        """Whether a claim's allocation ends if nothing happens but the end of these pods (uids)."""
        return self.end_of(key).comes_with(gone)

    def end_of(self, key: str) -> AllocationEnd:
        """When a claim's allocation ends.

        One that no pod has reserved does not end: no controller takes it back.
        """
        store = self.store
        placed = frozenset(filter(self._is_placed, store.users_of(key)))
        claim = store.claim(key)
        if claim is None or claim.allocation is None:
            return AllocationEnd(placed)  # only a placement that is taken back allocated it
        users, owner = claim.reserved_for, claim.owner_uid
        is_used = bool(users) or store.releases.has(key) or claim.is_deleting
        has_lost_owner = bool(owner) and owner not in self.pods
        return AllocationEnd(
            placed.union(one.uid for one in users if one.is_pod and self._keeps(key, one.uid)),
            owner,
            is_idle=not is_used and not has_lost_owner,
            is_kept=not all(one.is_pod for one in users),
        )

    def _is_placed(self, uid: str) -> bool:
        pod = self.pods.get(uid)
        return uid in self.assumed or (pod is not None and bool(pod.node_name))

    def _keeps(self, key: str, uid: str) -> bool:
        return uid in self.pods and not self.store.releases.has(key, uid)


class ClaimsOnNode:
    """Whose allocations end with pods of one node, as the ``newcomer`` sees it that would take
    their room: its own claims keep their devices.
    """

    def __init__(self, use: ClaimUse, node: Node, newcomer: Pod) -> None:
        self._use = use
        self._own = frozenset(use.store.keys_of(newcomer))
        self._ends = use.ends_at(node)
        ended = (key for key, end in self._ends.items() if end.comes_with(_NO_PODS))
        #: Their pods have ended already.
        self._ended = frozenset(ended) - self._own

    def ending(self, pods: Iterable[Pod]) -> frozenset[str]:
        """The keys of the claims that are deallocated when these pods have ended."""
        every = tuple(pods)
        keys = {key for pod in every for key in self._use.store.keys_of(pod)} - self._own
        gone = frozenset(pod.uid for pod in every)
        return self._ended.union(key for key in keys if self._end_of(key).comes_with(gone))

    def _end_of(self, key: str) -> AllocationEnd:
        end = self._ends.get(key)
        if end is None:  # it has devices elsewhere only
            end = self._ends[key] = self._use.end_of(key)
        return end
