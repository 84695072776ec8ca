"""ResourceClaims of pods, and extended resources that DRA serves (kube-scheduler:
dynamicresources).

PreFilter finds the claims. Filter: the node can use what is allocated, and has devices for the
rest. Score: the preferred subrequests, then what the node loses by the devices. Reserve: which
devices each claim gets. PreBind: the Binding waits until the claims are written. PostFilter: an
allocation that keeps the pod from every node is given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from scheduler.framework import pod_reads
from scheduler.framework.budget import Budget
from scheduler.framework.decision import AllocateClaims, Placement
from scheduler.framework.plugin import (
    FITS,
    SCORE_MAX,
    BoundFilter,
    NormalizedScore,
    Plugin,
    Reasons,
    Refuse,
    ReserveContext,
    TrialKey,
    normalized,
)
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.gpu.device import CLAIMED_MAX
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_resources import codes
from scheduler.plugins.dynamic_resources.allocation.results import NODE_NAME
from scheduler.plugins.dynamic_resources.deallocation import post_filter
from scheduler.plugins.dynamic_resources.extended_claim import (
    ONLY_BY_DRA,
    ExtendedResources,
    extended_resources,
)
from scheduler.plugins.dynamic_resources.map_line import map_line
from scheduler.plugins.dynamic_resources.node_claims import ClaimPlanner
from scheduler.plugins.dynamic_resources.pod_claims import FoundClaims, claims_of
from scheduler.state.dra.ended_claims import ClaimUse
from scheduler.state.node_info import NodeInfo

#: With more nodes that have devices, the index finds the nodes.
NODES_MAX: Final = 64
#: The score of a first subrequest (``FirstAvailableDeviceRequestMaxSize``).
FIRST_SCORE: Final = 8
#: What is lost of devices comes before the scores of cpu and memory.
LOSS_WEIGHT: Final = 2000


def pre_filter(view: View, pod: Pod, settings: Settings) -> Refuse | BoundFilter | None:
    """Refuse a pod whose claims no node can have now, else say what each node could do."""
    if not view.dra.extended.classes and not pod.resource_claims.claims:
        return None  # nearly all pods, without another call
    extended = extended_resources(view, pod)
    if extended is None and not pod.resource_claims.claims:
        return None
    found = claims_of(view, pod)
    if isinstance(found, Refuse):
        return found
    if not found.claims and extended is None:
        return None
    work = Budget(settings.decision_steps_max)
    planner = ClaimPlanner(view, found, work, extended)
    has_former = bool(pod.resource_claims.extended)

    def keeps_to_dra(node_info: NodeInfo) -> Reasons:
        """A mapped pod gets the devices of an entry, and is asked about these."""
        assert node_info.node is not None
        is_other = extended is not None and extended.on_node(node_info.node) is None
        return (ONLY_BY_DRA,) if has_former and is_other else FITS

    def check(node_info: NodeInfo) -> Reasons:
        assert node_info.node is not None
        return keeps_to_dra(node_info) or planner.reasons(node_info.node)

    def at_entry(node_info: NodeInfo, entry: MapEntry) -> Reasons:
        assert node_info.node is not None
        return planner.reasons(node_info.node, map_line(pod, entry, node_info))

    if pod.map_text is not None:
        return BoundFilter(keeps_to_dra, at_entry=at_entry, work=work)
    is_of_class = not found.claims and not has_former
    generation = view.dra.generation if is_of_class else None
    trial_key = None if has_former else _trial_key(view, pod, planner)
    return BoundFilter(check, _only(view, found), generation, work=work, trial_key=trial_key)


def _trial_key(
    view: View, pod: Pod, planner: ClaimPlanner
) -> Callable[[NodeInfo], TrialKey | None] | None:
    """What the devices of a node depend on for a pod without any, if pods of the node end."""
    store = view.dra
    if store.keys_of(pod):
        return None
    use = ClaimUse(store, view.pods, view.assumed)

    def key(node_info: NodeInfo) -> TrialKey | None:
        node = node_info.node
        assert node is not None
        version = store.version(node.name)
        if version is None:
            return None
        return TrialKey(planner.shape_on(node), (version, use.ends_at(node)))

    return key


def _planner(
    view: View,
    found: FoundClaims,
    settings: Settings,
    extended: ExtendedResources | None = None,
) -> ClaimPlanner:
    return ClaimPlanner(view, found, Budget(settings.decision_steps_max), extended)


def _only(view: View, found: FoundClaims) -> frozenset[str] | None:
    """The few nodes that can pass: those of allocated devices, or those with any devices."""
    for claim in found.allocated:
        assert claim.allocation is not None
        named = _named_nodes(claim.allocation)
        if named is not None:
            return named
    nodes = view.dra.pools.nodes() if any(one.requests for one in found.waiting) else None
    return frozenset(nodes) if nodes is not None and len(nodes) <= NODES_MAX else None


def _named_nodes(allocation: Allocation) -> frozenset[str] | None:
    """The nodes that a node selector names; None where it does not name them."""
    names: set[str] = set()
    for term in allocation.terms or ():
        named = [one for one in term.match_fields if (one.key, one.operator) == (NODE_NAME, "In")]
        if not named:
            return None
        names.update(named[0].values)
    return None if allocation.terms is None else frozenset(names)


def reserve(context: ReserveContext, placement: Placement) -> Placement | Refuse:
    """Decide which devices each claim gets on the chosen node."""
    pod = placement.pod
    if not context.view.dra.extended.classes and not pod.resource_claims.claims:
        return placement
    extended = extended_resources(context.view, pod)
    if extended is None and not pod.resource_claims.claims:
        return placement
    found = claims_of(context.view, pod)
    if isinstance(found, Refuse):
        return found
    node = context.node_info.node
    assert node is not None
    planner = _planner(context.view, found, context.settings, extended)
    line = map_line(pod, context.entry, context.node_info)
    plan = planner.plan(node, line)
    if not plan.claims and plan.extended is None:
        return placement
    names = tuple(_device_names(found, plan))[:CLAIMED_MAX]
    devices = msgspec.structs.replace(placement.devices, claimed=names)
    return msgspec.structs.replace(placement, claims=plan, devices=devices)


def _device_names(found: FoundClaims, plan: ClaimPlan) -> Iterator[str]:
    """The devices of all claims of a pod."""
    planned = [one.allocation for one in plan.claims]
    if plan.extended is not None:
        planned.append(plan.extended.allocation)
    for allocation in (*(one.allocation for one in found.allocated), *planned):
        for result in allocation.results if allocation is not None else ():
            yield result.device


def pre_bind(_context: ReserveContext, placement: Placement) -> AllocateClaims | None:
    """The claims that the Binding waits for."""
    return AllocateClaims(placement.claims) if placement.claims is not None else None


def preferences(view: View, pod: Pod, nodes: Sequence[NodeInfo], settings: Settings) -> list[int]:
    """How far in front the subrequests are that each node can meet (kube-scheduler's score)."""
    found = _scored_claims(view, pod)
    if found is None or not any(one.first_available for c in found.waiting for one in c.requests):
        return [0] * len(nodes)
    planner = _planner(view, found, settings)
    raw = []
    for node_info in nodes:
        assert node_info.node is not None
        allocations = planner.on_node(node_info.node).allocations
        raw.append(sum(map(preference, found.waiting, allocations)))
    return normalized(raw)


def losses(view: View, pod: Pod, nodes: Sequence[NodeInfo], settings: Settings) -> list[int]:
    """What each node loses by the devices, compared with the others; none where pods spread."""
    found = None if settings.spreads else _scored_claims(view, pod)
    if found is None:
        return [0] * len(nodes)
    planner = _planner(view, found, settings)
    raw = []
    for node_info in nodes:
        assert node_info.node is not None
        raw.append(planner.on_node(node_info.node).loss)
    least, most = min(raw, default=0.0), max(raw, default=0.0)
    if most == least:
        return [0] * len(nodes)
    return [round(SCORE_MAX * (most - one) / (most - least)) for one in raw]


def _scored_claims(view: View, pod: Pod) -> FoundClaims | None:
    """The claims of a pod where nodes may differ in them."""
    if not pod.resource_claims.claims:
        return None
    found = claims_of(view, pod)
    return None if isinstance(found, Refuse) or not found.waiting else found


def preference(claim: ResourceClaim, allocation: Allocation) -> int:
    """The score of the subrequests of one claim (``computeScore``): more is better."""
    given = {one.request for one in allocation.results}
    return sum(
        FIRST_SCORE - at
        for request in claim.requests
        for at, exact in enumerate(request.first_available)
        if request.name_of(exact) in given
    )


PLUGIN: Final = Plugin(
    name=codes.STAGE,
    reads=(pod_reads.RESOURCE_CLAIMS, pod_reads.REQUESTS),
    codes=codes.CODES,
    pre_filter=pre_filter,
    normalized_scores=(
        NormalizedScore(weight=2, score=preferences),
        NormalizedScore(weight=LOSS_WEIGHT, score=losses, is_preference=False),
    ),
    post_filter=post_filter,
    reserve=reserve,
    pre_bind=pre_bind,
)
