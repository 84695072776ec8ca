"""The ResourceClaims of a pod: what its spec names, and what its status says of them."""

from __future__ import annotations

from scheduler.model.dra.pod_claims import NO_CLAIMS, PodClaim, PodClaims
from scheduler.watch.decode.api_types import PodSpec, PodStatus


def pod_claims(spec: PodSpec, status: PodStatus) -> PodClaims:
    """The claims of the pod, in the order of ``spec.resourceClaims``.

    ``containers[].resources.claims`` only tells the kubelet which container gets which of them.
    """
    extended = status.extended_resource_claim_status
    if not spec.resource_claims and extended is None:
        return NO_CLAIMS
    names = {
        one.name: one.resource_claim_name or "" for one in status.resource_claim_statuses or ()
    }
    return PodClaims(
        tuple(
            PodClaim(
                one.name,
                claim_name=one.resource_claim_name or "",
                template_name=one.resource_claim_template_name or "",
                has_status=one.name in names,
                created_name=names.get(one.name, ""),
            )
            for one in spec.resource_claims
        ),
        extended.resource_claim_name if extended is not None else "",
    )
