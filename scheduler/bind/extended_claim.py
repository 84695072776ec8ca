"""The claim for a pod's extended resources, as the API has it, and its name in the pod's status.

It has the names, the annotation and the owner that kube-scheduler gives it
(``extendeddynamicresources.go``), so either scheduler finds it again.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.model import well_known
from scheduler.model.actions import CreateClaim
from scheduler.model.dra.claim import DeviceRequest, ResourceClaim
from scheduler.model.dra.extended_resources import ExtendedRequests

Json = dict[str, Any]

#: As many characters of a generated name the API server keeps (``names.MaxGeneratedNameLength``).
_BASE_MAX: Final = 58
#: The characters that follow.
SUFFIX_LENGTH: Final = 5


def claim_name(pod_name: str, suffix: str) -> str:
    """The name of the claim for a pod; ``suffix`` makes it unique.

    >>> claim_name("train-0", "x7k2p")
    'train-0-extended-resources-x7k2p'
    """
    return _base(pod_name)[:_BASE_MAX] + suffix


def _base(pod_name: str) -> str:
    return f"{pod_name}-extended-resources-"


def new_claim(created: CreateClaim, pod_name: str, pod_uid: str) -> bytes:
    """The claim; it is protected from the beginning, because it is allocated next."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": pod_uid}
    return msgspec.json.encode(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {
                "name": created.name,
                "namespace": created.namespace,
                "generateName": _base(pod_name),
                "annotations": {well_known.EXTENDED_CLAIM: "true"},
                "ownerReferences": [{**owner, "controller": True}],
                "finalizers": [well_known.CLAIM_FINALIZER],
            },
            "spec": {"devices": {"requests": list(map(_request, created.asked.requests))}},
        }
    )


def _request(request: DeviceRequest) -> Json:
    exact = request.exactly
    assert exact is not None
    asked = {"deviceClassName": exact.class_name, "allocationMode": exact.mode}
    return {"name": request.name, "exactly": {**asked, "count": exact.count}}


def is_own(claim: ResourceClaim, pod_uid: str) -> bool:
    """Whether a claim is the one for a pod's extended resources."""
    return claim.is_extended and claim.owner_uid == pod_uid


def claims_path(namespace: str) -> str:
    """Where claims are created."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


def pod_path(namespace: str, pod_name: str) -> str:
    """The path of a pod; its status is below it."""
    return f"/api/v1/namespaces/{namespace}/pods/{pod_name}"


class _Meta(msgspec.Struct, frozen=True):
    uid: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


def is_bound(content: bytes, pod_uid: str) -> bool:
    """Whether an answer is the pod with this uid, on a node."""
    pod = msgspec.json.decode(content, type=_Pod)
    return pod.metadata.uid == pod_uid and bool(pod.spec.node_name)


def status_patch(pod_uid: str, claim_name: str, asked: ExtendedRequests) -> bytes:
    """Tell the kubelet which claim has the devices of which container."""
    mappings = [
        {
            "containerName": one.container,
            "resourceName": one.resource,
            "requestName": one.request,
        }
        for one in asked.mappings
    ]
    claim = {"resourceClaimName": claim_name, "requestMappings": mappings}
    status = {"extendedResourceClaimStatus": claim}
    return msgspec.json.encode({"metadata": {"uid": pod_uid}, "status": status})
