"""The tiers that a pod may get instead of its request, in the order in which they are tried.

    a MIG request      itself, then the tiers below it on its ladder (several requests: together)
    a memory request   every profile with enough memory, smallest memory first, then least compute,
                       and a whole GPU last

A tier that is not tried is reported with the reason: no node has it, it is below the pod's floor,
above a quota, or not the tier of the pod's group.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from scheduler.decide.admission.fallback_policy import MEMORY, FallbackPolicy
from scheduler.model import well_known
from scheduler.model.gpu import gpu_memory
from scheduler.model.mig.fallback_ladder import Tier
from scheduler.model.mig.profile import compute_instances, size_key
from scheduler.model.mig.tier_nodes import ANYWHERE, TierNodes
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_variants import with_added, with_resources
from scheduler.state.cache.cluster import Cluster

COMBINATIONS_MAX: Final = 64
_SCANNED_MAX: Final = 4096

#: The replacement of a request, or the reason why there is none.
Changes = tuple[tuple[str, str], ...]


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """The pod as it would be rewritten: ``changes`` as (from, to), ``added`` as (container,
    resource).
    """

    pod: Pod
    changes: Changes = ()
    added: Changes = ()
    where: TierNodes = ANYWHERE

    @property
    def tiers(self) -> tuple[str, ...]:
        """The tiers that the pod would get, for messages."""
        labels = self.where.labels
        found = {new: Tier(new, labels).text for _, new in self.changes}
        asked = sorted(self.pod.gpu_requests)
        return tuple(found.get(resource, well_known.mig_profile(resource)) for resource in asked)


class SkippedTier(msgspec.Struct, frozen=True, kw_only=True):
    """A tier that is not tried: ``result`` is the metric result, ``text`` the message.

    ``candidate`` is the candidate, if the pod must wait for a tier.
    """

    tiers: tuple[str, ...]
    result: str
    text: str
    candidate: Candidate | None = None


Step = tuple[str, Tier] | SkippedTier


def options(
    cluster: Cluster, pod: Pod, policy: FallbackPolicy, admitted: Iterable[Pod]
) -> Iterator[Candidate | SkippedTier]:
    """All candidates of a pod; ``admitted`` are pods that no quota status contains yet."""
    choices = _memory_choices(cluster, policy) or _ladder_choices(cluster, pod, policy)
    others = tuple(admitted)
    reported: set[SkippedTier] = set()
    count = 0
    for steps in itertools.islice(itertools.product(*choices), _SCANNED_MAX):
        skipped = [step for step in steps if isinstance(step, SkippedTier)]
        for one in skipped:
            if one not in reported:
                reported.add(one)
                yield one
        if skipped:
            continue
        count += 1
        if count > COMBINATIONS_MAX:
            return
        chosen = tuple(step for step in steps if not isinstance(step, SkippedTier))
        yield _combined(cluster, pod, policy, chosen, others)


def _ladder_choices(cluster: Cluster, pod: Pod, policy: FallbackPolicy) -> list[list[Step]]:
    asked = (resource for resource in pod.gpu_requests if well_known.is_mig(resource))
    return [_ladder_tiers(cluster, resource, policy) for resource in asked]


def _ladder_tiers(cluster: Cluster, resource: str, policy: FallbackPolicy) -> list[Step]:
    ladder = policy.ladder(resource)
    tiers = (Tier(resource), *(ladder.below(resource) if ladder else ()))
    return [_checked_tier(cluster, resource, tier, policy) for tier in tiers]


def _checked_tier(cluster: Cluster, asked: str, tier: Tier, policy: FallbackPolicy) -> Step:
    """Whether a tier may be tried."""
    resource = tier.resource
    group_tiers = policy.group_tiers.get(asked)
    if group_tiers is not None and resource not in group_tiers:
        names = " or ".join(well_known.mig_profile(one) for one in sorted(group_tiers))
        return _skipped(tier, "group", f"the pod's group has {names}")
    if resource == asked:
        return asked, tier
    if resource in policy.avoided_tiers:
        return _skipped(tier, "crashed", "pods like this one crashed on it")
    if not cluster.nodes.offers.has(resource):
        return _skipped(tier, "absent", "no node offers it")
    if policy.floor and well_known.is_mig(resource) and not gpu_memory.has(resource, policy.floor):
        return _skipped(tier, "floor", f"it is below the pod's {well_known.MEMORY_FLOOR}")
    return asked, tier


def _skipped(tier: Tier, result: str, text: str) -> SkippedTier:
    return SkippedTier(tiers=(tier.text,), result=result, text=f"not tried: {text}")


def _memory_choices(cluster: Cluster, policy: FallbackPolicy) -> list[list[Step]]:
    return [
        [(container, tier) for tier in _with_memory(cluster, max(amount, policy.floor), policy)]
        for container, amount in policy.memory.items()
    ]


def _with_memory(cluster: Cluster, amount: int, policy: FallbackPolicy) -> Iterator[Tier]:
    """The tiers with enough memory. A compute instance shares its memory, so it is never one."""
    sufficient = [
        resource
        for resource in cluster.nodes.offers.resources()
        if gpu_memory.has(resource, amount) and compute_instances(resource) is None
    ]
    every = (*sorted(sufficient, key=size_key), well_known.GPU)
    group_tiers = policy.group_tiers.get(MEMORY, frozenset())
    return map(Tier, [resource for resource in every if resource in group_tiers] or every)


def _combined(
    cluster: Cluster,
    pod: Pod,
    policy: FallbackPolicy,
    chosen: tuple[tuple[str, Tier], ...],
    admitted: tuple[Pod, ...],
) -> Candidate | SkippedTier:
    where: TierNodes | None = ANYWHERE
    for asked, tier in chosen:
        wanted = TierNodes(tier.labels, _least_mib(asked, tier, policy))
        where = where.beside(wanted) if where is not None else None
    rewritten = _rewritten(pod, policy, chosen)
    bound = None if where is None else where.on(rewritten.pod)
    if where is None or bound is None:
        text = "not tried: the pod's nodeSelector selects other nodes"
        return SkippedTier(tiers=tuple(t.text for _, t in chosen), result="labels", text=text)
    candidate = msgspec.structs.replace(rewritten, pod=bound, where=where)
    problem = cluster.quotas.refusal(candidate.pod, admitted) if candidate.pod is not pod else None
    if problem is not None:
        text = f"not tried: {problem}"
        return SkippedTier(
            tiers=candidate.tiers, result="quota_exceeded", text=text, candidate=candidate
        )
    return candidate


def _least_mib(asked: str, tier: Tier, policy: FallbackPolicy) -> int:
    """The memory that a whole GPU must have; only the node's label has the actual amount."""
    if tier.resource != well_known.GPU or tier.resource == asked:
        return 0
    amount = max(policy.memory.get(asked, 0), policy.floor)
    return gpu_memory.least_mib(amount) if amount else 0


def _rewritten(pod: Pod, policy: FallbackPolicy, chosen: tuple[tuple[str, Tier], ...]) -> Candidate:
    if policy.memory:
        added = tuple((container, tier.resource) for container, tier in chosen)
        return Candidate(pod=with_added(pod, dict(added)), added=added)
    changes = tuple((old, tier.resource) for old, tier in chosen if old != tier.resource)
    rewritten = with_resources(pod, dict(changes)) if changes else pod
    return Candidate(pod=rewritten, changes=changes)
