"""Claims and the nodes on which they can be bound (kube-scheduler: volumebinding).

Filter: the volumes of bound claims admit the node, and every other claim can get one there.
Score: how much storage stays free; for a pod with GPUs between nodes that are equal otherwise.
Reserve: which volume each claim gets. PreBind: the Binding waits until all claims are bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.decision import BindVolumes, Placement
from scheduler.framework.plugin import (
    BoundFilter,
    NormalizedScore,
    Plugin,
    Reasons,
    Refuse,
    ReserveContext,
)
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.model.volumes.persistent_volume import PersistentVolume
from scheduler.model.well_known import HOSTNAME
from scheduler.plugins.volumes import codes
from scheduler.plugins.volumes.existing_volumes import data_nodes
from scheduler.plugins.volumes.node_plan import AFFINITY_TEXT, NodePlan, VolumePlanner
from scheduler.plugins.volumes.pod_claims import PodClaims, claims_of
from scheduler.state.node_info import NodeInfo
from scheduler.state.volumes.volume_index import hosts_of

#: Hosts of which the nodes are looked up; a volume that more hosts have narrows nothing.
HOSTS_MAX: Final = 256
#: Of a volume's node affinity, as a sentence shows it.
SHOWN_MAX: Final = 120


def pre_filter(view: View, pod: Pod, _settings: Settings) -> Refuse | BoundFilter | None:
    """Refuse a pod whose claims cannot be bound anywhere, else say what each node could do."""
    if not pod.volumes.claims:
        return None
    claims = claims_of(view, pod)
    if isinstance(claims, Refuse):
        return claims
    if not claims.bound and not claims.delayed:
        return None
    planner = VolumePlanner(view.volumes, claims)
    return BoundFilter(_check(pod, planner), _only(view, claims, planner))


def _check(pod: Pod, planner: VolumePlanner) -> Callable[[NodeInfo], Reasons]:
    is_mapped = pod.map_text is not None

    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        found = planner.on_node(node_info.node)
        if is_mapped and found.conflict is not None:
            return (_map_and_volume(node_info.node.name, found), *found.reasons[1:])
        return found.reasons

    return check


def _map_and_volume(node_name: str, found: NodePlan) -> Reason:
    """One reason for both: neither the map nor the volume will change by itself."""
    assert found.conflict is not None
    claim, volume = found.conflict
    return Reason(
        code=codes.MAP_AND_VOLUME,
        text=f"{AFFINITY_TEXT}: the map names node {node_name} and claim {claim.name} is bound to"
        f" volume {volume.name} ({affinity_words(volume)})",
        resolvable=False,
    )


def affinity_words(volume: PersistentVolume) -> str:
    """The node affinity of a volume in one short line without commas.

    >>> affinity_words(PersistentVolume(name="pv-1"))
    'any node'
    """
    if volume.required_terms is None:
        return "any node"
    terms = (
        " and ".join(
            f"{one.key} {one.operator} {'|'.join(one.values)}".rstrip()
            for one in (*term.match_expressions, *term.match_fields)
        )
        for term in volume.required_terms
    )
    return " or ".join(terms)[:SHOWN_MAX]


def _only(view: View, claims: PodClaims, planner: VolumePlanner) -> frozenset[str] | None:
    """The few nodes that can pass, where claims are bound to hosts or to a selected node."""
    for claim in claims.delayed:
        if claim.selected_node is not None:
            return frozenset((claim.selected_node,))
    hosts: set[str] | frozenset[str] | None = None
    for claim in claims.bound:
        volume = view.volumes.volume(claim.volume_name)
        found = hosts_of(volume) if volume is not None and volume.plugin is None else None
        if found is not None and (hosts is None or len(found) < len(hosts)):
            hosts = found
    for one in planner.candidates:
        found_class = view.volumes.classes.get(one.claim.class_name)
        if one.promised or one.anywhere or found_class is None or found_class.provisions:
            continue
        local = frozenset(view.volumes.index.hosts(one.claim.class_name))
        if hosts is None or len(local) < len(hosts):
            hosts = local
    if hosts is None or len(hosts) > HOSTS_MAX:
        return None
    return frozenset(view.topology.nodes_with(HOSTNAME, hosts))


def reserve(context: ReserveContext, placement: Placement) -> Placement | Refuse:
    """Decide which volume each unbound claim gets on the chosen node."""
    if not placement.pod.volumes.claims:
        return placement
    claims = claims_of(context.view, placement.pod)
    if isinstance(claims, Refuse):
        return claims
    if not claims.delayed:
        return placement
    assert context.node_info.node is not None
    node = context.node_info.node
    found = VolumePlanner(context.view.volumes, claims).on_node(node)
    assert not found.reasons, f"{placement.pod.key} passed VolumeBinding and has no plan"
    return msgspec.structs.replace(placement, volumes=found.at(node.name))


def score_of(view: View, pod: Pod) -> Callable[[NodeInfo], int] | None:
    """The score of one node; None where all nodes have the same."""
    if not pod.volumes.claims:
        return None
    claims = claims_of(view, pod)
    if isinstance(claims, Refuse) or not claims.delayed:
        return None
    planner = VolumePlanner(view.volumes, claims)
    if not planner.has_scores:
        return None

    def score(node_info: NodeInfo) -> int:
        assert node_info.node is not None
        return planner.on_node(node_info.node).score

    return score


def scores(view: View, pod: Pod, nodes: Sequence[NodeInfo], _settings: Settings) -> list[int]:
    """How much storage is left on each node, for a pod with claims that are bound there."""
    of_node = score_of(view, pod)
    return [0] * len(nodes) if of_node is None else [of_node(node_info) for node_info in nodes]


def pre_bind(_context: ReserveContext, placement: Placement) -> BindVolumes | None:
    """The claims that the Binding waits for; None where all are bound."""
    return BindVolumes(placement.volumes) if placement.volumes is not None else None


PLUGIN: Final = Plugin(
    name="VolumeBinding",
    skips_plain=True,
    reads=(pod_reads.VOLUMES,),
    codes=(
        codes.CLAIM_NOT_FOUND,
        codes.CLAIM_NOT_USABLE,
        codes.CLAIM_NOT_BOUND,
        codes.VOLUME_NOT_FOUND,
        codes.VOLUME_AFFINITY,
        codes.VOLUME_NOT_AVAILABLE,
        codes.STORAGE_FULL,
        codes.MAP_AND_VOLUME,
    ),
    pre_filter=pre_filter,
    data_nodes=data_nodes,
    normalized_scores=(NormalizedScore(weight=1, score=scores, is_preference=False),),
    tie_break=score_of,
    reserve=reserve,
    pre_bind=pre_bind,
)
