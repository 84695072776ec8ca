"""Evicts the pod of a migration through the Eviction API.

The uid is a precondition, so a new pod of the same name is not evicted. For a pending pod the
resourceVersion is one too: a pod that was bound meanwhile is not evicted. The API server enforces
PodDisruptionBudgets; it does not apply them to pods that never ran.
"""

from __future__ import annotations

import msgspec

from scheduler.model.crd.migration_actions import EvictPod
from scheduler.state.event import Eviction, EvictionEnded
from scheduler.watch.client import ApiError, Client, Unreachable

#: Distinguishes the 429 of a budget from that of a busy API server.
BUDGET = "disruption budget"


async def evict(client: Client, action: EvictPod) -> EvictionEnded:
    """Send one eviction and return how it ended."""
    migration = action.migration
    result, message = await request_eviction(
        client, migration.namespace, migration.pod_name, migration.pod_uid, action.version
    )
    return EvictionEnded(migration.id, result, message)


async def request_eviction(
    client: Client, namespace: str, name: str, uid: str, version: str = ""
) -> tuple[Eviction, str]:
    """Evict exactly the pod with this uid (and version, if given)."""
    preconditions = {"uid": uid}
    if version:
        preconditions["resourceVersion"] = version
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        },
    }
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    try:
        await client.request("POST", path, msgspec.json.encode(body))
    except ApiError as error:
        return _result(error), error.message
    except Unreachable as error:
        return Eviction.FAILED, str(error)
    return Eviction.EVICTED, ""


def _result(error: ApiError) -> Eviction:
    if error.status in (404, 409):
        return Eviction.GONE
    if error.status == 429 and BUDGET in error.message:
        return Eviction.FORBIDDEN
    return Eviction.FAILED
