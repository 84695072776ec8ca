"""The patches of ResourceClaims.

The uid is always a precondition; the version is one where a decision depends on the rest of the
claim. Those of the status are strategic merge patches: entries of ``reservedFor`` are merged, so a
patch holds only what it adds or takes away. The finalizer is a merge patch: a strategic one sorts
the keys of ``spec.devices.config``, and the API server then refuses it as a change of the spec.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.model import well_known
from scheduler.model.dra.allocation import AllocatedConfig, Allocation, DeviceResult
from scheduler.model.dra.amount import amount_text
from scheduler.model.dra.device import DeviceToleration

Json = dict[str, Any]


def claim_path(namespace: str, name: str) -> str:
    """The path of a claim; its status is below it."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"


def finalizer_patch(uid: str, version: str, finalizers: tuple[str, ...]) -> bytes:
    """Protect a claim that is about to be allocated; ``finalizers`` are those that it has."""
    every = [*finalizers, well_known.CLAIM_FINALIZER]
    return msgspec.json.encode({"metadata": {**_at(uid, version), "finalizers": every}})


def reservation_patch(
    uid: str, version: str, pod_name: str, pod_uid: str, allocation: Allocation | None
) -> bytes:
    """Reserve a claim for a pod, and allocate it in the same write unless it is allocated."""
    consumer = {"resource": "pods", "name": pod_name, "uid": pod_uid}
    status: Json = {"reservedFor": [consumer]}
    if allocation is not None:
        status["allocation"] = encode_allocation(allocation)
    return msgspec.json.encode({"metadata": _at(uid, version), "status": status})


def release_patch(uid: str, pod_uid: str) -> bytes:
    """Take back the reservation for a pod, whatever else changed."""
    status = {"reservedFor": [{"$patch": "delete", "uid": pod_uid}]}
    return msgspec.json.encode({"metadata": {"uid": uid}, "status": status})


def deallocation_patch(uid: str, version: str) -> bytes:
    """Deallocate a claim; the API server removes the status of its devices with the allocation."""
    status = {"allocation": None, "reservedFor": None, "devices": None}
    return msgspec.json.encode({"metadata": _at(uid, version), "status": status})


def encode_allocation(allocation: Allocation) -> Json:
    """``status.allocation``."""
    devices: Json = {"results": [_result(one) for one in allocation.results]}
    if allocation.config:
        devices["config"] = [_config(one) for one in allocation.config]
    found: Json = {"devices": devices}
    if allocation.terms is not None:
        terms = [_without_empty(msgspec.to_builtins(one)) for one in allocation.terms]
        found["nodeSelector"] = {"nodeSelectorTerms": terms}
    if allocation.timestamp:
        found["allocationTimestamp"] = allocation.timestamp
    return found


def _at(uid: str, version: str) -> Json:
    return {"uid": uid, "resourceVersion": version}


def _result(result: DeviceResult) -> Json:
    found = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
        "adminAccess": result.admin_access,
        "tolerations": [_toleration(one) for one in result.tolerations],
        "bindingConditions": result.binding_conditions,
        "bindingFailureConditions": result.binding_failure_conditions,
        "shareID": result.share_id,
        "consumedCapacity": {name: amount_text(one) for name, one in result.consumed.items()},
        "skipNodeOperations": result.skip_node_operations,
    }
    return _without_empty(found)


def _toleration(toleration: DeviceToleration) -> Json:
    found = _without_empty(
        {
            "key": toleration.key,
            "operator": toleration.operator,
            "value": toleration.value,
            "effect": toleration.effect,
        }
    )
    if toleration.seconds is not None:
        found["tolerationSeconds"] = toleration.seconds
    return found


def _config(config: AllocatedConfig) -> Json:
    parameters = msgspec.Raw(config.config.parameters.encode())
    found = {"source": config.source, "requests": config.requests}
    opaque = {"driver": config.config.driver, "parameters": parameters}
    return {**_without_empty(found), "opaque": opaque}


def _without_empty(fields: Json) -> Json:
    """A field without a value is not written, as Go omits it."""
    return {name: value for name, value in fields.items() if value}
