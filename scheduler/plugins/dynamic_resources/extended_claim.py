"""The claim that a pod would get on a node for extended resources that DRA serves there (KEP-5004).

Mirrors ``filterExtendedResources`` of kube-scheduler's dynamicresources: each node has its own
claim, for the resources that no device plugin advertises there.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.framework.view import View
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.extended_resources import ExtendedRequests, extended_requests
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Reason
from scheduler.plugins.dynamic_resources.codes import RESOURCE_CLAIM_ELSEWHERE

#: The name of the claim until it exists; no claim of the API can have it (kube-scheduler has the
#: same).
NAME: Final = "<extended-resources>"


#: The kubelet waits for the claim that a pod's status names, and nothing can remove its name.
ONLY_BY_DRA: Final = Reason(
    code=RESOURCE_CLAIM_ELSEWHERE,
    text="resourceclaim not available on the node (the pod's status names a claim for extended"
    " resources and a device plugin serves them here)",
    resolvable=False,
)


class PlannedExtendedClaim(msgspec.Struct, frozen=True):
    """What is asked for a pod where DRA serves these resources, and the claim that asks for it."""

    resources: frozenset[str]
    asked: ExtendedRequests
    claim: ResourceClaim


class ExtendedResources:
    """The extended resources of one pod that have a DeviceClass."""

    def __init__(self, pod: Pod, classes: dict[str, str]) -> None:
        self._pod = pod
        self._classes = classes
        self._by_resources: dict[frozenset[str], PlannedExtendedClaim] = {}

    def on_node(self, node: Node) -> PlannedExtendedClaim | None:
        """The claim that the pod needs on a node; None where device plugins serve all resources."""
        served = frozenset(one for one in self._classes if not node.allocatable.get(one, 0))
        if not served:
            return None
        found = self._by_resources.get(served)
        if found is None:
            found = self._by_resources[served] = self._planned(served)
        return found

    def _planned(self, served: frozenset[str]) -> PlannedExtendedClaim:
        pod = self._pod
        classes = {resource: self._classes[resource] for resource in served}
        asked = extended_requests(pod.containers, classes)
        claim = ResourceClaim(
            namespace=pod.namespace,
            name=NAME,
            owner_uid=pod.uid,
            is_extended=True,
            requests=asked.requests,
        )
        return PlannedExtendedClaim(served, asked, claim)


def extended_resources(view: View, pod: Pod) -> ExtendedResources | None:
    """The extended resources of a pod that DRA may serve; None for most pods."""
    known = view.dra.extended.classes
    if not known:
        return None
    classes = {
        resource: known[resource]
        for resource, amount in pod.requests.items()
        if amount > 0 and resource in known
    }
    return ExtendedResources(pod, classes) if classes else None
