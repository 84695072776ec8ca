"""Claims, volumes, classes and CSI objects as last seen, with what placements assume of them.

Folding one object says which waiting pods it may help: those that use the claim, those that wait
for anything of storage, or only at one node.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import msgspec

from scheduler.model.reasons.reason import RequeueCause
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import ClaimRef, PersistentVolume
from scheduler.model.volumes.storage import (
    CsiDriver,
    CsiNode,
    StorageCapacity,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)
from scheduler.model.volumes.volume_plan import VolumePlan
from scheduler.state.event import Change, ClusterEvent
from scheduler.state.volumes.assumed import AssumedObjects
from scheduler.state.volumes.claim_users import ClaimUsers
from scheduler.state.volumes.volume_index import VolumeIndex
from scheduler.state.whole_list import fold_list

_NO_ATTACHMENTS: Final[Mapping[str, VolumeAttachment]] = {}
#: Where the objects of each kind are.
_PLACES: Final[dict[type[StorageObject], str]] = {
    StorageClass: "classes",
    CsiDriver: "drivers",
    CsiNode: "csi_nodes",
    StorageCapacity: "_capacities",
    VolumeAttachment: "_attachments",
    PersistentVolume: "_volumes",
    Claim: "_claims",
}
#: Anything about storage changed.
_ANY: Final[list[Change]] = [ClusterEvent(RequeueCause.STORAGE)]


class VolumeStore:
    """One store per cluster state; the loop is its one writer."""

    def __init__(self) -> None:
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CsiNode] = {}
        self.drivers: dict[str, CsiDriver] = {}
        self.users = ClaimUsers()
        self.index = VolumeIndex()
        #: Counts the changes; equal numbers mean equal answers.
        self.generation = 0
        self._claims: dict[str, Claim] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self._capacities: dict[str, StorageCapacity] = {}
        self._attachments: dict[str, VolumeAttachment] = {}
        self._by_class: dict[str, dict[str, StorageCapacity]] = {}
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        self._assumed = AssumedObjects()
        self._node_labels: Counter[str] = Counter()

    # --- reading ---------------------------------------------------------------------

    def claim(self, key: str) -> Claim | None:
        """A claim, with the node that a placement selects for it."""
        return self._assumed.claims.get(key) or self._claims.get(key)

    def volume(self, name: str) -> PersistentVolume | None:
        """A volume, with the claim that a placement gives it to; None if it cannot be read."""
        found = self._assumed.volumes.get(name) or self._volumes.get(name)
        return None if found is None or found.unread else found

    def claim_seen(self, key: str) -> Claim | None:
        """A claim as the API server has it."""
        return self._claims.get(key)

    def volume_seen(self, name: str) -> PersistentVolume | None:
        """A volume as the API server has it."""
        return self._volumes.get(name)

    def volumes_for(self, claim: Claim) -> list[PersistentVolume]:
        """The volumes of its class that are bound to a claim, in advance or by a placement."""
        names = dict.fromkeys(self.index.of_claim(claim.key))
        assumed = self._assumed.volume_of.get(claim.key)
        if assumed is not None:
            names[assumed] = None
        found = (self.volume(name) for name in sorted(names))
        return [
            one
            for one in found
            if one is not None and one.class_name == claim.class_name and one.is_for(claim)
        ]

    def free(self, names: Iterable[str]) -> list[PersistentVolume]:
        """The volumes that no placement gives away, the smallest first."""
        found = (self.volume(name) for name in names)
        free = [one for one in found if one is not None and one.claim is None]
        return sorted(free, key=lambda one: (one.capacity, one.name))

    def capacities(self, class_name: str) -> Iterable[StorageCapacity]:
        """What a driver says of the storage that is left for a class."""
        return self._by_class.get(class_name, {}).values()

    def attachments(self, node_name: str) -> Iterable[VolumeAttachment]:
        """The volumes that are attached to a node, or about to be."""
        return self._by_node.get(node_name, _NO_ATTACHMENTS).values()

    def reads_label(self, key: str) -> bool:
        """Whether a volume, a class or a capacity asks for a node label."""
        return key in self._node_labels

    def every(self) -> Iterator[StorageObject]:
        """All objects as the API server has them."""
        for kind in _PLACES:
            yield from self._all(kind).values()

    def what_if(self) -> VolumeStore:
        """The same objects with assumptions of its own, on top of the present ones."""
        other = copy.copy(self)
        other._assumed = self._assumed.copy()
        return other

    # --- placements ------------------------------------------------------------------

    def assume(self, uid: str, plan: VolumePlan) -> None:
        """A placement gives volumes to claims, and selects the node of others."""
        self.generation += 1
        for one in plan.bindings:
            volume, claim = self.volume(one.volume), self.claim(one.claim)
            if volume is None or claim is None:
                continue  # gone since: writing it will fail
            ref = ClaimRef(claim.namespace, claim.name, claim.uid)
            if volume.claim != ref:
                self._assumed.give(uid, claim, msgspec.structs.replace(volume, claim=ref))
        for provision in plan.provisions:
            claim = self.claim(provision.claim)
            if claim is not None and claim.selected_node != plan.node_name:
                claim = msgspec.structs.replace(claim, selected_node=plan.node_name)
                self._assumed.select(uid, claim)

    def restore(self, uid: str) -> list[Change]:
        """The placement is taken back: what it did not write is free for others."""
        if not self._assumed.restore(uid):
            return []
        self.generation += 1
        return list(_ANY)

    def keep(self, uid: str, key: str) -> None:
        """A placement's change of a volume or claim was written."""
        self._assumed.keep(uid, key)

    def confirm(self, uid: str, *, is_bound: bool) -> list[Change]:
        """The pod has a node; where it is another one, the placement is taken back."""
        if not is_bound:
            return self.restore(uid)
        self._assumed.end(uid)
        return []

    # --- folding ---------------------------------------------------------------------

    def upsert(self, item: StorageObject) -> list[Change]:
        """Fold an object's newest state."""
        objects = self._all(type(item))
        before = objects.get(item.key)
        if before == item:
            return []
        objects[item.key] = item
        return self._changed(before, item)

    def delete(self, kind: type[StorageObject], key: str) -> list[Change]:
        """Fold an object's deletion."""
        before = self._all(kind).pop(key, None)
        return [] if before is None else self._changed(before, None)

    def replace(self, kind: type[StorageObject], items: Iterable[StorageObject]) -> list[Change]:
        """Fold all objects of one kind."""
        listed = {item.key: item for item in items}
        return fold_list(self._all(kind), listed, partial(self.delete, kind), self.upsert)

    def _all(self, kind: type[StorageObject]) -> dict[str, Any]:
        objects: dict[str, Any] = getattr(self, _PLACES[kind])
        return objects

    def _changed(self, before: Any, after: Any) -> list[Change]:
        self.generation += 1
        self._count_labels(before, -1)
        self._count_labels(after, 1)
        match after if after is not None else before:
            case Claim():
                return self._claim_changed(before, after)
            case PersistentVolume():
                return self._volume_changed(before, after)
            case StorageCapacity():
                return self._capacity_changed(before, after)
            case VolumeAttachment():
                return self._attachment_changed(before, after)
            case CsiNode(name=name):
                return [ClusterEvent(RequeueCause.STORAGE, node_name=name)]
        return list(_ANY)

    def _claim_changed(self, before: Claim | None, after: Claim | None) -> list[Change]:
        one = after or before
        assert one is not None
        self._assumed.claims.pop(one.key, None)
        if before is not None and after is not None and _but_version(before, after):
            return []
        return [ClusterEvent(RequeueCause.CLAIM, what=frozenset((one.key,)))]

    def _volume_changed(
        self, before: PersistentVolume | None, after: PersistentVolume | None
    ) -> list[Change]:
        self.index.put(before, after)
        one = after or before
        assert one is not None
        self._assumed.drop_volume(one.name)
        if after is None or (before is not None and _but_version(before, after)):
            return []
        return list(_ANY)

    def _capacity_changed(
        self, before: StorageCapacity | None, after: StorageCapacity | None
    ) -> list[Change]:
        if before is not None:
            _discard(self._by_class, before.class_name, before.key)
        if after is None:
            return []
        self._by_class.setdefault(after.class_name, {})[after.key] = after
        is_less = (
            before is not None
            and msgspec.structs.replace(before, largest=after.largest, left=after.left) == after
            and (after.largest or 0) <= (before.largest or 0)
        )
        return [] if is_less else list(_ANY)

    def _attachment_changed(
        self, before: VolumeAttachment | None, after: VolumeAttachment | None
    ) -> list[Change]:
        if before is not None:
            _discard(self._by_node, before.node_name, before.key)
        if after is not None:
            self._by_node.setdefault(after.node_name, {})[after.key] = after
        if before is None:
            return []
        return [ClusterEvent(RequeueCause.STORAGE, node_name=before.node_name)]

    def _count_labels(self, item: StorageObject | None, delta: int) -> None:
        keys: Iterable[str] = ()
        match item:
            case PersistentVolume() | StorageClass():
                keys = item.node_labels
            case StorageCapacity(nodes=nodes):
                keys = nodes.keys
        for key in keys:
            self._node_labels[key] += delta
            if self._node_labels[key] <= 0:
                del self._node_labels[key]


def _but_version(before: Claim | PersistentVolume, after: Claim | PersistentVolume) -> bool:
    """Whether only the version differs: nothing that a decision reads has changed."""
    return msgspec.structs.replace(before, version=after.version) == after


def _discard(found: dict[str, dict[str, Any]], place: str, key: str) -> None:
    inner = found.get(place, {})
    inner.pop(key, None)
    if not inner:
        found.pop(place, None)
