"""What the claims of a pod would get on one node, or why that node will not do.

Mirrors ``FindPodVolumes`` of kube-scheduler's volumebinding: the volumes of bound claims must be
usable on the node; every other claim gets an existing volume, else one that is provisioned there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec

from scheduler.model.node import Node
from scheduler.model.reasons.reason import Reason
from scheduler.model.volumes.claim import Claim
from scheduler.model.volumes.persistent_volume import PersistentVolume
from scheduler.model.volumes.volume_plan import Provision, StaticBinding, VolumePlan
from scheduler.model.well_known import HOSTNAME
from scheduler.plugins.volumes.codes import VOLUME_AFFINITY, VOLUME_NOT_FOUND
from scheduler.plugins.volumes.pod_claims import PodClaims
from scheduler.plugins.volumes.provisioner import Provisioned, Provisioner
from scheduler.plugins.volumes.static_match import Candidates, by_request, candidates
from scheduler.plugins.volumes.storage_score import score_of_capacities, score_of_volumes
from scheduler.state.volumes.store import VolumeStore
from scheduler.state.volumes.volume_index import hosts_of

AFFINITY_TEXT = "node(s) didn't match PersistentVolume's node affinity"


#: The values of a node on which the answer depends.
_Place = tuple[object, ...]


class NodePlan(msgspec.Struct, frozen=True, dict=True):
    """``reasons`` against a node, or what each claim gets there: an existing volume, or one that is
    provisioned. ``conflict`` is the volume that the node cannot use.
    """

    given: tuple[tuple[Claim, PersistentVolume], ...] = ()
    provisioned: tuple[Provisioned, ...] = ()
    reasons: tuple[Reason, ...] = ()
    conflict: tuple[Claim, PersistentVolume] | None = None

    def at(self, node_name: str) -> VolumePlan:
        """The plan for a node."""
        given = (StaticBinding(one.key, to.name, one.class_name) for one, to in self.given)
        provisions = (
            Provision(one.claim.key, one.found.name, one.found.provisioner)
            for one in self.provisioned
        )
        return VolumePlan(node_name, tuple(given), tuple(provisions))

    @cached_property
    def score(self) -> int:
        """How much of the storage stays free (``storage_score``)."""
        if self.given:
            return score_of_volumes(self.given)
        return score_of_capacities(self.provisioned)


class VolumePlanner:
    """One pod's claims, compared with one node after the other.

    Nodes with the same values of the labels that the storage objects read get the same answer. It
    holds for one decision: the objects must not change meanwhile.
    """

    def __init__(self, store: VolumeStore, claims: PodClaims) -> None:
        self._store = store
        self._bound = [(one, store.volume(one.volume_name)) for one in claims.bound]
        self._selected = tuple(one for one in claims.delayed if one.selected_node is not None)
        waiting = (one for one in claims.delayed if one.selected_node is None)
        self._candidates = tuple(candidates(store, one) for one in by_request(waiting))
        self._provisioners = {one.key: Provisioner(store, one) for one in claims.delayed}
        self._missing = tuple(_missing(one) for one, volume in self._bound if volume is None)[:1]
        volumes = [one for _, one in self._bound if one is not None]
        for one in self._candidates:
            volumes += (*one.promised, *one.anywhere)
        hosts = [named for one in volumes if (named := _only_hosts(one)) is not None]
        self._hosts: frozenset[str] = frozenset().union(*hosts)
        local = (store.index.hosts(one.claim.class_name) for one in self._candidates)
        self._local = tuple(one for one in local if one)
        self._keys = tuple(sorted(self._label_keys(volumes)))
        self._is_migrating = any(one is not None and one.plugin for _, one in self._bound)
        self._plans: dict[_Place, NodePlan] = {}

    @property
    def candidates(self) -> tuple[Candidates, ...]:
        """The unbound claims for which no node is selected yet, with what they may get."""
        return self._candidates

    @property
    def has_scores(self) -> bool:
        """Whether nodes may differ in their scores."""
        return bool(self._candidates) and (
            any(one.promised or one.anywhere for one in self._candidates)
            or bool(self._local)
            or any(one.capacities is not None for one in self._provisioners.values())
        )

    def on_node(self, node: Node) -> NodePlan:
        """What the claims get on a node."""
        place = self._place(node)
        found = self._plans.get(place)
        if found is None:
            found = self._plans[place] = self._plan(node)
        return found

    def _place(self, node: Node) -> _Place:
        value_of = node.labels.get
        place: list[object] = [value_of(key) for key in self._keys]
        host = value_of(HOSTNAME, "")
        place.append(host if host in self._hosts else "")
        if any(host in hosts for hosts in self._local):
            place.append(node.name)  # the labels that its own volumes read are not looked up
        if self._is_migrating:
            place.append(self._migrated(node))
        if self._selected:
            place += [one.selected_node == node.name for one in self._selected]
        return tuple(place)

    def _label_keys(self, volumes: Iterable[PersistentVolume]) -> set[str]:
        """The node labels that the objects read, but for the hosts that ``_hosts`` has."""
        found: set[str] = set()
        for one in volumes:
            found |= one.node_labels if _only_hosts(one) is None else one.node_labels - {HOSTNAME}
        return found.union(*(one.label_keys for one in self._provisioners.values()))

    def _plan(self, node: Node) -> NodePlan:
        conflict = self._conflict(node)
        missing = self._missing if conflict is None else ()
        bound = () if conflict is None else (_affinity(*conflict),)
        for claim in self._selected:
            if claim.selected_node != node.name:
                elsewhere = self._provisioners[claim.key].selected_elsewhere()
                return NodePlan(reasons=(*bound, elsewhere, *missing), conflict=conflict)
        given, unmatched = self._static(node.labels)
        provisioned: list[Provisioned] = []
        problem: tuple[Reason, ...] = ()
        for claim in (*self._selected, *unmatched):
            found = self._provisioners[claim.key].on_node(node.labels)
            if isinstance(found, Reason):
                problem = (found,)
                break
            provisioned.append(found)
        reasons = (*bound, *problem, *missing)
        if reasons:
            return NodePlan(reasons=reasons, conflict=conflict)
        return NodePlan(given, tuple(provisioned))

    def _conflict(self, node: Node) -> tuple[Claim, PersistentVolume] | None:
        """The first bound claim whose volume the node cannot use; later ones are not looked at."""
        migrated = self._migrated(node) if self._is_migrating else frozenset()
        for claim, volume in self._bound:
            if volume is None:
                return None
            if not usable(volume, node.labels, migrated):
                return claim, volume
        return None

    def _migrated(self, node: Node) -> frozenset[str]:
        csi_node = self._store.csi_nodes.get(node.name)
        return csi_node.migrated if csi_node is not None else frozenset()

    def _static(
        self, labels: Mapping[str, str]
    ) -> tuple[tuple[tuple[Claim, PersistentVolume], ...], list[Claim]]:
        """Existing volumes for claims, the smallest claim first; and the claims that get none."""
        given: dict[str, tuple[Claim, PersistentVolume]] = {}
        unmatched: list[Claim] = []
        for one in self._candidates:
            volume = one.on_node(self._store, labels, given)
            if volume is None:
                unmatched.append(one.claim)
            else:
                given[volume.name] = (one.claim, volume)
        return tuple(given.values()), unmatched


def _only_hosts(volume: PersistentVolume) -> frozenset[str] | None:
    """The only hosts that may use a volume, where its node affinity names them."""
    return hosts_of(volume) if volume.plugin is None else None


def usable(volume: PersistentVolume, labels: Mapping[str, str], migrated: frozenset[str]) -> bool:
    """Whether a node can use a volume; ``migrated`` plugins have the topology of a CSI driver."""
    if volume.plugin is not None and volume.plugin.name in migrated:
        return volume.admits_as_csi(labels)
    return volume.admits(labels)


def _affinity(claim: Claim, volume: PersistentVolume) -> Reason:
    text = f"{AFFINITY_TEXT} (claim {claim.name}; volume {volume.name})"
    return Reason(code=VOLUME_AFFINITY, text=text, resolvable=False)


def _missing(claim: Claim) -> Reason:
    text = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    text = f"{text} (claim {claim.name}; volume {claim.volume_name})"
    return Reason(code=VOLUME_NOT_FOUND, text=text, resolvable=False)
