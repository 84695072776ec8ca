"""A cluster in which pods with ResourceClaims are migrated: ``migration_world`` with claims.

kube-controller-manager creates those of templates, and deletes them with their pods.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from gpuctl.simulate import claim_changes
from scheduler.framework.decision import Placement
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import NewClaim
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.dra.objects import DraObject
from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption
from tests.allocation_check import held_twice
from tests.builders import node, pod
from tests.dra import DRIVER, Json, claiming, device_class, device_json, resource_claim
from tests.dra import resource_slice as a_slice
from tests.migration_world import Workload, World

#: The template: one large device, else a medium or a small one.
SIZES = ("large", "medium", "small")


def either(*sizes: str, name: str = "gpu") -> Json:
    """A request of the first of these sizes that can be had."""
    subrequests = [{"name": one, "deviceClassName": one} for one in sizes or SIZES]
    return {"name": name, "firstAvailable": subrequests}


def devices(node_name: str, **counts: int) -> ResourceSlice:
    """The devices of a node, by size: ``large-0``."""
    return a_slice(
        node_name,
        *(
            device_json(f"{size}-{at}", attributes={"size": {"string": size}})
            for size, count in counts.items()
            for at in range(count)
        ),
    )


def classes() -> tuple[DeviceClass, ...]:
    """A class for each size."""
    return tuple(
        device_class(size, f"device.attributes['{DRIVER}'].size == '{size}'") for size in SIZES
    )


class ClaimWorld(World):
    """Its nodes have one large device and three small ones, unless slices say otherwise."""

    def __init__(self, *slices: ResourceSlice, of: Sequence[DeviceClass] = (), **more: Any) -> None:
        published = slices or (devices("n1", large=1, small=3),)
        self.templates: dict[str, tuple[Json, ...]] = {"either": (either(),)}
        known: list[DraObject] = [*(of or classes()), *published]
        self.dra: dict[tuple[type[DraObject], str], DraObject] = {
            (type(one), one.key): one for one in known
        }
        self.is_behind = False
        self.unseen: list[DraObject] = []
        names = sorted({one.pool_id.pool for one in published})
        super().__init__(*map(_node, names), **more)

    def restart(self) -> None:
        """A new process reads claims and devices too."""
        super().restart()
        self.deliver(*(ev.DraUpdated(one) for one in self.dra.values()))

    def store(self, one: DraObject) -> None:
        """An object as it is from now on; the watch of it may be behind."""
        self.dra[type(one), one.key] = one
        if self.is_behind:
            self.unseen.append(one)
        else:
            self.deliver(ev.DraUpdated(one))

    def write(self, claim: DraObject) -> None:
        """A claim after a request that changes or creates it."""
        assert isinstance(claim, ResourceClaim)
        version = str(int(claim.version or 0) + 1)
        self.store(msgspec.structs.replace(claim, version=version))

    def catch_up(self) -> None:
        """The watch shows everything again."""
        self.is_behind = False
        self.deliver(*map(ev.DraUpdated, self.unseen))
        self.unseen.clear()

    def add_slice(self, one: ResourceSlice) -> None:
        """Devices of a new node."""
        self.nodes[one.pool_id.pool] = _node(one.pool_id.pool)
        self.deliver(ev.NodeUpdated(self.nodes[one.pool_id.pool]))
        self.store(one)

    def claims(self) -> dict[str, ResourceClaim]:
        """All claims by key."""
        return {one.key: one for one in self.dra.values() if isinstance(one, ResourceClaim)}

    def user(self, name: str, *, template: str = "either", claim: str = "", **fields: Any) -> Pod:
        """A bare pod with a claim."""
        named = claiming(claim) if claim else claiming(templates={"accel": template})
        made = self.create(pod(name, uid="", spec=named, **fields))
        self.decide_due()
        assert made is not None
        return self.pods.get(made.uid, made)

    def show(self, shown: Pod) -> None:
        """The claims of a new pod are created before its status names them."""
        if not shown.node_name and shown.uid not in self.pods:
            shown = self._with_claims(shown)
        super().show(shown)

    def _with_claims(self, shown: Pod) -> Pod:
        created = {}
        for use in shown.resource_claims.claims:
            if use.template_name:
                created[use.name] = f"{shown.uid}-{use.name}"
                requests = self.templates[use.template_name]
                self.store(resource_claim(created[use.name], *requests, owner=shown.uid))
        return claim_changes.naming(shown, created)

    def remove(self, uid: str) -> None:
        """A pod is gone; its own claims are deleted, and others lose its reservation."""
        super().remove(uid)
        for event in claim_changes.released(self.claims().values(), uid):
            if isinstance(event, ev.DraUpdated):
                self.write(event.item)
            elif isinstance(event, ev.DraDeleted):
                del self.dra[event.kind, event.key]
                self.deliver(event)

    def bind(self, placement: Placement) -> None:
        """The claims are written before the Binding."""
        user, plan = placement.pod, placement.claims
        assumption = Assumption(
            placement.node_name, placement.devices, placement.index, claims=plan
        )
        self.apply(tuple(self.cluster.assume(user, assumption)))
        known = self.claims()
        for one in plan.claims if plan is not None else ():
            claim = known[one.key]
            self.write(claim_changes.reserved(claim, one, user))
        shown = self.bound(placement)
        if plan is not None and plan.extended is not None:
            shown = self._with_extended(shown, plan.extended)
        self.deliver(ev.PodUpdated(shown))

    def _with_extended(self, shown: Pod, new: NewClaim) -> Pod:
        """The scheduler has created the claim for extended resources."""
        name = f"{shown.uid}-extended-resources"
        self.write(claim_changes.extended(shown, new, name))
        claims = msgspec.structs.replace(shown.resource_claims, extended=name)
        self.pods[shown.uid] = msgspec.structs.replace(shown, resource_claims=claims)
        return self.pods[shown.uid]

    def given(self, workload: str) -> list[str]:
        """The devices of a workload's placed pods, sorted: ``large-0``."""
        return sorted(name for one in self.of(workload) for name in self.devices_of(one))

    def devices_of(self, placed: Pod) -> list[str]:
        """The devices of one pod."""
        known = self.claims()
        found = [known.get(f"team/{name}") for name in placed.resource_claims.names]
        return [
            result.device
            for claim in found
            if claim is not None and claim.allocation is not None
            for result in claim.allocation.results
        ]

    def check(self) -> None:
        """What must never be: a device in two claims."""
        super().check()
        allocations = (claim.allocation for claim in self.claims().values())
        assert held_twice(one for one in allocations if one is not None) == set()


def web(replicas: int = 2, *, template: str = "either", **more: Any) -> Workload:
    """A Deployment whose pods have a claim of the template."""
    spec = claiming(templates={"accel": template})
    return Workload("web", replicas, tier="", fields={"spec": spec}, **more)


def _node(name: str) -> Node:
    return node(name, labels={"kubernetes.io/hostname": name})
