"""Builders of ``resource.k8s.io`` objects: each writes the API's JSON and lets the product's
decoder read it.

``*_json`` is what a test sends to a real API server; the function without the suffix is what the
watch delivers of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.device_class import DeviceClass
from scheduler.model.dra.resource_slice import DeviceTaintRule, ResourceSlice
from scheduler.state import event as ev
from scheduler.watch.decode.dra import claims as of_claims
from scheduler.watch.decode.dra import classes as of_classes
from scheduler.watch.decode.dra import slices as of_slices
from scheduler.watch.decode.object_decoder import ObjectDecoder

Json = dict[str, Any]

DRIVER = "gpu.example.com"
CLASS = "gpu.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"


def _meta(name: str, **more: Any) -> Json:
    return {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", **more}


def device_json(name: str, **more: Any) -> Json:
    """A device; ``attributes`` and the other fields as the API has them."""
    return {"name": name, **more}


def slice_json(
    node: str = "n1",
    *devices: str | Json,
    name: str = "",
    generation: int = 1,
    slices: int = 1,
    driver: str = DRIVER,
    pool: str = "",
    **spec: Any,
) -> Json:
    """A slice with devices of one node, in a pool of the node's name.

    Without devices it has no such field: the API server refuses it beside counters, even empty.
    """
    named = [device_json(one) if isinstance(one, str) else one for one in devices]
    content: Json = {"devices": named} if named else {}
    place = {"name": pool or node, "generation": generation, "resourceSliceCount": slices}
    where = (
        {} if spec.keys() & {"allNodes", "nodeSelector", "sharedCounters"} else {"nodeName": node}
    )
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": _meta(name or f"{node}-{driver}"),
        "spec": {"driver": driver, "pool": place, **content, **where, **spec},
    }


def resource_slice(node: str = "n1", *devices: str | Json, **more: Any) -> ResourceSlice:
    """The same as the model has it."""
    found: ResourceSlice = _as(of_slices.SLICES, slice_json(node, *devices, **more))
    return found


def rule_json(name: str = "rule", *, effect: str = "NoSchedule", **selector: str) -> Json:
    """A taint of the devices of a ``driver``, ``pool`` or ``device``."""
    taint = {"key": "broken", "effect": effect}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": _meta(name),
        "spec": {"deviceSelector": selector, "taint": taint},
    }


def taint_rule(name: str = "rule", **more: Any) -> DeviceTaintRule:
    """The same as the model has it."""
    found: DeviceTaintRule = _as(of_slices.RULES, rule_json(name, **more))
    return found


def class_json(name: str = CLASS, *selectors: str, **spec: Any) -> Json:
    """A class of all devices that the CEL expressions select."""
    cel = [{"cel": {"expression": one}} for one in selectors]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": _meta(name),
        "spec": {"selectors": cel, **spec},
    }


def device_class(name: str = CLASS, *selectors: str, **spec: Any) -> DeviceClass:
    """The same as the model has it."""
    found: DeviceClass = _as(of_classes.CLASSES, class_json(name, *selectors, **spec))
    return found


def request_json(name: str = "gpu", class_name: str = CLASS, **exactly: Any) -> Json:
    """A request of exactly one device, unless ``count`` says otherwise."""
    return {"name": name, "exactly": {"deviceClassName": class_name, **exactly}}


def result_json(device: str = "gpu-0", node: str = "n1", **more: Any) -> Json:
    """A device that was allocated."""
    return {"request": "gpu", "driver": DRIVER, "pool": node, "device": device, **more}


def allocation_json(*results: Json, node: str = "n1", **more: Any) -> Json:
    """An allocation of devices of a node."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": list(results)}, "nodeSelector": terms, **more}


def consumer_json(pod_name: str, namespace: str = "team") -> Json:
    """A pod in ``reservedFor``."""
    return {"resource": "pods", "name": pod_name, "uid": f"{namespace}-{pod_name}"}


def claim_json(
    name: str = "gpu",
    *requests: Json,
    namespace: str = "team",
    version: str = "1",
    allocation: Json | None = None,
    users: Sequence[str] = (),
    devices: Sequence[Json] = (),
    owner: str = "",
    owner_type: tuple[str, str] = ("v1", "Pod"),
    extended: bool = False,
    deleting: bool = False,
    **spec: Any,
) -> Json:
    """A claim of one device; with ``allocation`` it is allocated, and reserved for its users."""
    meta = _meta(name, namespace=namespace, resourceVersion=version)
    if owner:
        of = {"apiVersion": owner_type[0], "kind": owner_type[1], "name": "p", "uid": owner}
        meta["ownerReferences"] = [{**of, "controller": True}]
    if extended:
        meta["annotations"] = {"resource.kubernetes.io/extended-resource-claim": "true"}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    status: Json = {}
    if allocation is not None:
        meta["finalizers"] = [FINALIZER]
        reserved = [consumer_json(one, namespace) for one in users]
        status = {"allocation": allocation, "reservedFor": reserved, "devices": list(devices)}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": {"requests": list(requests) or [request_json()], **spec}},
        "status": status,
    }


def resource_claim(name: str = "gpu", *requests: Json, **more: Any) -> ResourceClaim:
    """The same as the model has it."""
    found: ResourceClaim = _as(of_claims.CLAIMS, claim_json(name, *requests, **more))
    return found


def claiming(*claims: str, templates: Mapping[str, str] | None = None) -> Json:
    """The part of a pod's spec that names claims, and templates by the name in the pod."""
    named = [{"name": one, "resourceClaimName": one} for one in claims]
    made = [
        {"name": name, "resourceClaimTemplateName": one} for name, one in (templates or {}).items()
    ]
    return {"resourceClaims": [*named, *made]}


def claim_spec(
    device_class: str = "gpu.nvidia.com", config: Json | None = None, **exactly: Any
) -> Json:
    """The spec of a claim of one device of a class, with parameters for the driver of NVIDIA; the
    seed's ``gpu-claim``, if nothing else is said.
    """
    opaque = {"driver": "gpu.nvidia.com", "parameters": config}
    parameters = {"config": [{"opaque": opaque}]} if config else {}
    return {"devices": {"requests": [request_json("gpu", device_class, **exactly)], **parameters}}


def with_claim(pod: Json, *, template: str = "", claim: str = "") -> Json:
    """The pod, whose first container uses one claim: of a template, or an existing one."""
    source = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    container = pod["spec"]["containers"][0]
    used = {**container, "resources": {"claims": [{"name": "gpu"}]}}
    others = pod["spec"]["containers"][1:]
    spec = {"resourceClaims": [{"name": "gpu", **source}], "containers": [used, *others]}
    return {**pod, "spec": {**pod["spec"], **spec}}


def _as(decoder: ObjectDecoder[Any], content: Json) -> Any:
    event = decoder.event(msgspec.json.encode(content), False)
    assert isinstance(event, ev.DraUpdated)
    return event.item
