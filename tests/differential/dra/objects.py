"""The ResourceClaims of pods as objects of the API, and their names in a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler.model import well_known
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.pods.pod import Pod

Json = dict[str, Any]

CLAIMS: Final = "resourceclaims"
#: What the claim for extended resources is called in a sequence, behind the pod's name.
EXTENDED: Final = "extended"


def created(pod: Json, templates: Mapping[str, Json]) -> list[Json]:
    """The claims of a pod's templates, as kube-controller-manager creates them."""
    meta = pod["metadata"]
    return [
        {
            "metadata": {
                "name": f"{meta['name']}-{entry}",
                "namespace": meta["namespace"],
                "ownerReferences": [_owner(meta)],
            },
            "spec": spec,
        }
        for entry, spec in templates.items()
    ]


def extended_claim(pod: Json, key: str) -> Json:
    """The claim for the extended resources of a pod, without its requests: it is allocated."""
    namespace, _, name = key.partition("/")
    meta = {
        "name": name,
        "namespace": namespace,
        "annotations": {well_known.EXTENDED_CLAIM: "true"},
        "ownerReferences": [_owner(pod["metadata"])],
    }
    return {"metadata": meta, "spec": {}}


def statuses(pod_name: str, templates: Mapping[str, Json]) -> Json:
    """The part of a pod's status that names its claims."""
    named = [{"name": one, "resourceClaimName": f"{pod_name}-{one}"} for one in templates]
    return {"resourceClaimStatuses": named}


def named_claims(pod: Json) -> list[str]:
    """The keys of the claims that a pod names, which are not its own."""
    return [
        f"{pod['metadata']['namespace']}/{one['resourceClaimName']}"
        for one in pod["spec"].get("resourceClaims", ())
        if "resourceClaimName" in one
    ]


def name_in_sequence(claim: ResourceClaim, pod: Pod) -> str:
    """A claim's name without the number that made the pod's name unique."""
    if claim.owner_uid != pod.uid:
        return claim.name
    name = pod.name.partition("-")[0]
    if claim.is_extended:
        return f"{name}-{EXTENDED}"
    return name + claim.name.removeprefix(pod.name)


def _owner(meta: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }
