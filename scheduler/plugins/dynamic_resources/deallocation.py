"""PostFilter: gives up an allocation that keeps a pod from every node.

A ResourceClaim keeps its devices when its pod was not bound. If no node takes the pod now, an
allocation for certain nodes that nothing else has reserved is taken back, so that the next decision
allocates anywhere. kube-scheduler does so in ``PostFilter`` of its dynamicresources, before it
preempts pods.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler.framework.decision import Rejection
from scheduler.framework.plugin import PostFilterContext
from scheduler.model.actions import ClaimRef
from scheduler.model.dra.claim import ResourceClaim
from scheduler.plugins.dynamic_resources.codes import RESOURCE_CLAIM_ELSEWHERE
from scheduler.state.dra.store import DraStore


def post_filter(context: PostFilterContext) -> Rejection | None:
    """The rejection with a claim to deallocate; None where that cannot help: no node lacks only
    the devices of a claim that is allocated."""
    rejection = context.rejection
    pod = rejection.pod
    if not pod.resource_claims or pod.scheduler_name != context.settings.scheduler_name:
        return None
    keys = (f"{pod.namespace}/{name}" for name in pod.resource_claims.names)
    found = next(_idle(context.view.dra, keys, pod.uid), None)
    if found is None or not _is_elsewhere(rejection):
        return None
    text = f"deallocating resourceclaim {found.name} that no node can use"
    return msgspec.structs.replace(
        rejection,
        diagnosis=rejection.diagnosis.with_post_filter(text),
        deallocates=ClaimRef(found.namespace, found.name, found.uid),
    )


def _is_elsewhere(rejection: Rejection) -> bool:
    """Whether a node has devices for the claims that wait, but not those of the allocated ones."""
    return any(
        reason.code is RESOURCE_CLAIM_ELSEWHERE
        for reasons in rejection.diagnosis.nodes.values()
        for reason in reasons
    )


def _idle(store: DraStore, keys: Iterator[str], pod_uid: str) -> Iterator[ResourceClaim]:
    """The claims that are allocated for certain nodes, and that no other consumer has reserved."""
    for key in keys:
        claim = store.claim(key)
        if claim is None or claim.allocation is None or claim.is_deleting:
            continue
        if store.releases.has(key):
            continue  # it is requested already
        is_idle = all(one.uid == pod_uid for one in claim.reserved_for)
        if is_idle and claim.allocation.terms is not None:
            yield claim
