"""Evicts the pod of a ticket, by the Eviction API.

The uid is a precondition, so that a pod made meanwhile under the same name lives. For a pod that
waits, its version is one too: if it was bound meanwhile, it is not evicted. PodDisruptionBudgets
are the API server's to keep; it does not apply them to pods that never ran.
"""

from __future__ import annotations

import msgspec

from scheduler.model.crd.migration_actions import EvictPod
from scheduler.state.event import Eviction, EvictionEnded
from scheduler.watch.client import ApiError, Client, Unreachable

#: What tells a budget's 429 from that of a busy API server.
BUDGET = "disruption budget"


async def evict(client: Client, errand: EvictPod) -> EvictionEnded:
    """Send one eviction and say how it ended."""
    ticket = errand.ticket
    result, message = await request_eviction(
        client, ticket.namespace, ticket.pod_name, ticket.pod_uid, errand.version
    )
    return EvictionEnded(ticket.id, result, message)


async def request_eviction(
    client: Client, namespace: str, name: str, uid: str, version: str = ""
) -> tuple[Eviction, str]:
    """Evict exactly the pod with this uid (and version, where one is given)."""
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
