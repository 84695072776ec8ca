"""Claims, classes and devices as decisions read them, with what placements give away.

The loop is its one writer. A device is in use from the decision that gives it to a claim, not from
the event that shows the claim's new status.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import msgspec

from scheduler.model import well_known
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.dra.device import Device, DeviceTaint
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.dra.objects import DraObject
from scheduler.model.dra.resource_slice import DeviceTaintRule, PoolId, ResourceSlice
from scheduler.model.dra.subrequests import degraded_requests
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.dra.changed_nodes import ChangedNodes
from scheduler.state.dra.claims.allocation_versions import AllocationVersions
from scheduler.state.dra.claims.assumed import AssumedAllocations
from scheduler.state.dra.claims.claim_releases import ClaimReleases
from scheduler.state.dra.claims.claim_users import ClaimUsers
from scheduler.state.dra.claims.extended_claims import NOT_CREATED, ExtendedClaims
from scheduler.state.dra.device_counts import DeviceCounter, DeviceCounts
from scheduler.state.dra.device_holders import DeviceHolders
from scheduler.state.dra.extended_classes import ExtendedClasses
from scheduler.state.dra.in_use import DevicesInUse
from scheduler.state.dra.pools import Pools
from scheduler.state.event import Change, ClusterEvent
from scheduler.state.whole_list import fold_list

#: Devices became free or were published, anywhere.
_ANY: Final[list[Change]] = [ClusterEvent(RequeueCause.RESOURCE_DEVICES)]


class DraStore:
    """One store per cluster state.

    ``index_attributes`` has the attribute with the index of a GPU, by driver.
    """

    def __init__(self, index_attributes: Mapping[str, str] = MappingProxyType({})) -> None:
        self.classes: dict[str, DeviceClass] = {}
        self.pools = Pools()
        self.users = ClaimUsers()
        self.in_use = DevicesInUse()
        self.versions = AllocationVersions()
        #: Counts the changes; equal numbers mean equal answers.
        self.generation = 0
        self._rules: dict[str, DeviceTaintRule] = {}
        self._claims: dict[str, ResourceClaim] = {}
        self._assumed = AssumedAllocations()
        #: The allocation of each claim that ``in_use`` counts.
        self._counted: dict[str, Allocation] = {}
        self._extended_claims = ExtendedClaims()
        self.extended = ExtendedClasses()
        self.holders = DeviceHolders()
        self.releases = ClaimReleases()
        self.index_attributes = index_attributes
        self._counter = DeviceCounter(
            self.pools, self.in_use, self.extended, self.taints, index_attributes
        )
        #: The nodes whose devices are to be counted again.
        self.changed = ChangedNodes(self.pools)
        #: The claims with another subrequest of ``firstAvailable`` than the first.
        self.degraded: dict[str, None] = {}
        #: The claims of which the devices changed, for the books of teams; None: no teams.
        self.recounted: dict[str, None] | None = None

    # --- reading ---------------------------------------------------------------------

    def claim(self, key: str) -> ResourceClaim | None:
        """A claim as the API server has it."""
        return self._claims.get(key)

    def extended_claim(self, pod_uid: str) -> ResourceClaim | None:
        """The claim that a scheduler created for the extended resources of a pod."""
        return self._claims.get(self._extended_claims.of(pod_uid))

    def extended_claims(self) -> Iterator[ResourceClaim]:
        """All claims for extended resources of pods."""
        return (self._claims[key] for key in self._extended_claims.every())

    def keys_of(self, pod: Pod) -> tuple[str, ...]:
        """The claims of a pod that have devices, also those that only its placement gives it."""
        named = (f"{pod.namespace}/{name}" for name in pod.resource_claims.names)
        extended = (self._extended_claims.of(pod.uid), *self._extended_claims.planned(pod.uid))
        return tuple(key for key in dict.fromkeys((*named, *extended)) if key in self._counted)

    def users_of(self, key: str) -> tuple[str, ...]:
        """The uids of the living pods that name a claim, or for which it is to be created."""
        return (*self.users.of(key), *ExtendedClaims.pod_of(key))

    def counted(self, key: str) -> Allocation | None:
        """The devices that a claim has, by the API server or by a placement."""
        return self._counted.get(key)

    def every_counted(self) -> tuple[str, ...]:
        """The keys of all claims with devices."""
        return tuple(self._counted)

    def may_serve(self, pod: Pod) -> bool:
        """Whether a claim could give the pod devices: it names one, or a class serves a resource
        that it requests.
        """
        if pod.resource_claims.claims:
            return True
        classes = self.extended.classes
        return bool(classes) and any(resource in classes for resource in pod.requests)

    def is_being_allocated(self, key: str) -> bool:
        """Whether a placement allocates the claim, and the API server does not show it yet."""
        return key in self._assumed

    def is_creating_claim(self, pod_uid: str) -> bool:
        """Whether a placement creates a claim for the pod, and the API server does not show it."""
        return bool(self._extended_claims.planned(pod_uid))

    def version(self, node_name: str) -> tuple[int, int] | None:
        """Equal versions mean equal devices and allocations for a node whose labels are equal; no
        answer is kept for None.
        """
        return self.changed.version(node_name)

    def taints(self, device: Device) -> tuple[DeviceTaint, ...]:
        """The taints of a device, those of DeviceTaintRules too."""
        if not self._rules:
            return device.taints
        more = (one.taint for one in self._rules.values() if one.selects(device))
        return (*device.taints, *more)

    def every(self) -> Iterator[DraObject]:
        """All objects as the API server has them."""
        for kind in (ResourceSlice, DeviceTaintRule, DeviceClass, ResourceClaim):
            yield from self._all(kind).values()

    def leave(self, pod: Pod) -> list[Change]:
        """A pod does not use its claims any more."""
        if not pod.resource_claims:
            return []
        self.users.remove(pod)
        return [_of_claim(f"{pod.namespace}/{name}") for name in pod.resource_claims.names]

    def devices_on(self, node: Node) -> DeviceCounts | None:
        """How many devices a node has for each extended resource; None where it has no pool."""
        return self._counter.on_node(node)

    # --- placements ------------------------------------------------------------------

    def assume(self, uid: str, plan: ClaimPlan) -> None:
        """A pod's placement allocates devices to claims."""
        for one in plan.claims:
            if one.allocation is None:
                continue
            claim = self._claims.get(one.key)
            if claim is None or claim.uid != one.uid or claim.allocation is not None:
                continue  # gone or allocated since: writing it will fail
            self._assumed.give(uid, one.key, one.uid, one.allocation)
            self._recount(one.key)
        if plan.extended is not None:
            key = self._extended_claims.plan(uid)
            self._assumed.give(uid, key, NOT_CREATED, plan.extended.allocation)
            self._recount(key)

    def restore(self, uid: str) -> list[Change]:
        """The placement is taken back: what the API server does not show is free for others.

        While a write is not answered, its devices stay in use: it may still be carried out.
        """
        return self._freed(uid, self._assumed.restore(uid)) if self.generation else []

    def begin_write(self, uid: str) -> None:
        """The allocations of a pod's placement are about to be written."""
        self._assumed.begin_write(uid)

    def end_write(self, uid: str) -> list[Change]:
        """The API server has answered, and the claims that it wrote were folded."""
        return self._freed(uid, self._assumed.end_write(uid))

    def end_release(self, uid: str) -> list[Change]:
        """The API server has answered about the claims of a pod that are taken back: what waits for
        their devices is decided again, whatever became of them.
        """
        keys = self.releases.end(uid)
        return [*_ANY, *map(_of_claim, keys)] if keys else []

    def _freed(self, uid: str, keys: Iterable[str]) -> list[Change]:
        changes: list[Change] = []
        for key in keys:
            self._extended_claims.drop(uid, key)
            changes += self._recount(key)
            changes.append(_of_claim(key))
        return changes

    def confirm(self, uid: str, *, is_bound: bool) -> list[Change]:
        """The pod has a node; where it is another one, the placement is taken back."""
        if not is_bound:
            return self.restore(uid)
        self._assumed.end(uid)
        return []

    def end_pod(self, uid: str) -> list[Change]:
        """The pod is gone, and with it the claim that was created for it and not seen."""
        if not self.generation or self._assumed.is_writing(uid):
            return []
        return [
            one for key in self._extended_claims.planned(uid) for one in self._end_new(uid, key)
        ]

    def _end_new(self, uid: str, key: str) -> list[Change]:
        self._extended_claims.drop(uid, key)
        return self._recount(key) if self._assumed.drop(key) else []

    # --- folding ---------------------------------------------------------------------

    def upsert(self, item: DraObject) -> list[Change]:
        """Fold an object's newest state; an older one than the known claim is ignored.

        The answer to our own write may arrive before an event of an earlier write.
        """
        objects = self._all(type(item))
        before = objects.get(item.key)
        if before == item or (
            isinstance(item, ResourceClaim) and before is not None and _is_older(item, before)
        ):
            return []
        return self._changed(before, item)

    def delete(self, kind: type[DraObject], key: str) -> list[Change]:
        """Fold an object's deletion."""
        before = self._all(kind).get(key)
        return [] if before is None else self._changed(before, None)

    def replace(self, kind: type[DraObject], items: Iterable[DraObject]) -> list[Change]:
        """Fold all objects of one kind."""
        listed = {item.key: item for item in items}
        with self.versions.listing():
            return fold_list(self._all(kind), listed, partial(self.delete, kind), self.upsert)

    def _all(self, kind: type[DraObject]) -> dict[str, Any]:
        places: dict[type[DraObject], dict[str, Any]] = {
            ResourceSlice: self.pools.slices,
            DeviceTaintRule: self._rules,
            DeviceClass: self.classes,
            ResourceClaim: self._claims,
        }
        return places[kind]

    def _changed(self, before: Any, after: Any) -> list[Change]:
        self.generation += 1
        one = after if after is not None else before
        if isinstance(one, ResourceClaim):
            return self._claim_changed(before, after)
        if isinstance(one, ResourceSlice):
            self.changed.add_pools_of(before, after)
            self.pools.put(before, after)
            self.changed.add_pools_of(after)
            return [] if after is None else self._events_of((one.pool_id,))
        self.changed.add_any()
        if isinstance(one, DeviceClass):
            self.extended.change(before, after)
        objects = self._all(type(one))
        objects.pop(one.key, None)
        if after is not None:
            objects[one.key] = after
        if isinstance(one, DeviceTaintRule):
            return [] if before is None else list(_ANY)  # a new rule takes devices away
        return [] if after is None else [*_ANY, _served(after)]

    def _claim_changed(
        self, before: ResourceClaim | None, after: ResourceClaim | None
    ) -> list[Change]:
        one = after or before
        assert one is not None
        self._claims.pop(one.key, None)
        if after is not None:
            self._claims[one.key] = after
        self.versions.change(before, after)
        shows = after is not None and after.allocation is not None
        self._assumed.drop(one.key, "" if shows or after is None else after.uid)
        changes = self._recount(one.key)
        if one.is_extended:
            self._extended_changed(one, is_there=after is not None)
        if after is not None and degraded_requests(after):
            self.degraded[one.key] = None
        else:
            self.degraded.pop(one.key, None)
        if before is not None and after is not None and _has_same_content(before, after):
            return changes
        return [*changes, _of_claim(one.key)]

    def _extended_changed(self, one: ResourceClaim, *, is_there: bool) -> None:
        """The claim of a pod's extended resources; until now its allocation was only assumed."""
        self._extended_claims.change(one, is_there=is_there)
        if not is_there or one.allocation is None:
            return
        for key in self._extended_claims.planned(one.owner_uid):
            assumed = self._assumed.of(key)
            if assumed is not None and _devices(assumed) <= _devices(one.allocation):
                self._end_new(one.owner_uid, key)

    def _recount(self, key: str) -> list[Change]:
        """Count what a claim has now; the devices that became free."""
        claim = self._claims.get(key)
        seen = claim.allocation if claim is not None else None
        now = seen if seen is not None else self._assumed.of(key)
        before = self._counted.get(key)
        if before == now:
            return []
        self.generation += 1
        if before is not None:
            self.in_use.remove(before)
            self.holders.remove(key, before)
            del self._counted[key]
        if now is not None:
            self.in_use.add(now)
            self.holders.add(key, now)
            self._counted[key] = now
        if self.recounted is not None:
            self.recounted[key] = None
        self.changed.add_pools_of(before, now)
        if before is None or (now is not None and _devices(before) <= _devices(now)):
            return []
        return self._events_of(_pools(before))

    def _events_of(self, pool_ids: Iterable[PoolId]) -> list[Change]:
        """Devices of pools became free or were published: at the nodes of the pools."""
        names: dict[str, None] = {}
        for pool_id in dict.fromkeys(pool_ids):
            nodes = self.pools.nodes_of(pool_id)
            if nodes is None or len(nodes) > 1:
                return list(_ANY)
            names.update(dict.fromkeys(nodes))
        return [ClusterEvent(RequeueCause.RESOURCE_DEVICES, node_name=name) for name in names]


def _pools(allocation: Allocation) -> tuple[PoolId, ...]:
    return tuple(dict.fromkeys(PoolId(one.driver, one.pool) for one in allocation.results))


def _served(one: DeviceClass) -> ClusterEvent:
    """The implicit name of a class can be requested; no node counts its devices."""
    names = frozenset((well_known.DRA_PREFIX + one.name,))
    return ClusterEvent(RequeueCause.FREED, what=names)


def _of_claim(key: str) -> ClusterEvent:
    return ClusterEvent(RequeueCause.RESOURCE_CLAIM, what=frozenset((key,)))


def _devices(allocation: Allocation) -> set[object]:
    return {one.id for one in allocation.results}


def _has_same_content(before: ResourceClaim, after: ResourceClaim) -> bool:
    """Whether only what no decision reads has changed: the version, the finalizer."""
    same = msgspec.structs.replace(before, version=after.version, finalizers=after.finalizers)
    return same == after


def _is_older(item: ResourceClaim, known: ResourceClaim) -> bool:
    """Whether a claim is an older state of the known one; versions of one server are numbers."""
    if item.uid != known.uid or not (item.version.isdecimal() and known.version.isdecimal()):
        return False
    return int(item.version) < int(known.version)
