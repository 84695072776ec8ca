"""How far the claims of a placement are: bound, waiting, or never to be bound this way.

Mirrors ``checkBindings`` of kube-scheduler's volumebinding. It reads objects as the API server has
them, not as placements assume them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.model.node import Node
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import PersistentVolume
from scheduler.model.volumes.volume_plan import Provision, StaticBinding, VolumePlan
from scheduler.plugins.volumes.node_plan import usable
from scheduler.state.volumes.store import VolumeStore


class VolumeStatus(msgspec.Struct, frozen=True):
    """``waits_for`` are the claims that are not bound; ``problem`` ends the placement."""

    waits_for: tuple[str, ...] = ()
    problem: str = ""


def status(
    store: VolumeStore, plan: VolumePlan, node: Node, written: Mapping[str, str]
) -> VolumeStatus:
    """The state of a plan; ``written`` has the version of each object that was written for it."""
    waits: list[str] = []
    every: tuple[StaticBinding | Provision, ...] = (*plan.bindings, *plan.provisions)
    for one in every:
        claim = store.claim_seen(one.claim)
        if claim is None:
            return VolumeStatus(problem=f"claim {one.claim} is gone")
        if isinstance(one, StaticBinding):
            problem = _given(store, one, claim, node, written)
        else:
            problem = _provisioned(store, one, claim, node, written)
        if problem:
            return VolumeStatus(problem=problem)
        if problem is None or not claim.is_bound:
            waits.append(str(one))
    return VolumeStatus(tuple(waits))


def _given(
    store: VolumeStore,
    binding: StaticBinding,
    claim: Claim,
    node: Node,
    written: Mapping[str, str],
) -> str | None:
    """What is wrong; empty where nothing is, None where the watch does not show our write yet."""
    volume = store.volume_seen(binding.volume)
    if volume is None:
        return f"volume {binding.volume} is gone"
    if is_older(volume.version, written.get(volume.name, "")):
        return None
    if volume.claim is None or not volume.claim.uid:
        return f"the claim of volume {volume.name} was reset"
    if volume.claim.uid != claim.uid:
        other = f"{volume.claim.namespace}/{volume.claim.name}"
        return f"volume {volume.name} was given to claim {other}"
    return _unusable(store, volume, node)


def _provisioned(
    store: VolumeStore,
    provision: Provision,
    claim: Claim,
    node: Node,
    written: Mapping[str, str],
) -> str | None:
    if is_older(claim.version, written.get(claim.key, "")):
        return None
    if claim.selected_node != node.name:
        return (
            f"provisioning failed for claim {claim.name}"
            f" (class {provision.class_name}; provisioner {provision.provisioner})"
        )
    if not claim.volume_name:
        return ""
    volume = store.volume_seen(claim.volume_name)
    return None if volume is None else _unusable(store, volume, node)


def _unusable(store: VolumeStore, volume: PersistentVolume, node: Node) -> str:
    csi_node = store.csi_nodes.get(node.name)
    migrated = csi_node.migrated if csi_node is not None else frozenset()
    if usable(volume, node.labels, migrated):
        return ""
    return f"the node affinity of volume {volume.name} does not match node {node.name}"


def is_older(seen: str, written: str) -> bool:
    """Whether an object is of an earlier version than the one that was written.

    Versions of one resource compare as decimal numbers (``apimachinery/pkg/util/resourceversion``).

    >>> is_older("9", "10"), is_older("10", "10"), is_older("11", "")
    (True, False, False)
    """
    return (len(seen), seen) < (len(written), written)
