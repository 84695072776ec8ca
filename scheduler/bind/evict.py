"""Evicts the pod of a ticket, by the Eviction API.

The uid is a precondition, so that a pod made meanwhile under the same name lives. For a pod that
waits, its version is one too: if it was bound meanwhile, it is not evicted. PodDisruptionBudgets
are the API server's to keep; it does not apply them to pods that never ran.
"""

from __future__ import annotations

import msgspec

from scheduler.model.errand import Evict
from scheduler.state.event import Eviction, EvictionEnded
from scheduler.watch.client import ApiError, Client, Unreachable

#: What tells a budget's 429 from that of a busy API server.
BUDGET = "disruption budget"


async def evict(client: Client, errand: Evict) -> EvictionEnded:
    """Send one eviction and say how it ended."""
    ticket = errand.ticket
    preconditions = {"uid": ticket.pod_uid}
    if errand.version:
        preconditions["resourceVersion"] = errand.version
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": ticket.pod_name, "namespace": ticket.namespace},
        "deleteOptions": {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        },
    }
    path = f"/api/v1/namespaces/{ticket.namespace}/pods/{ticket.pod_name}/eviction"
    try:
        await client.request("POST", path, msgspec.json.encode(body))
    except ApiError as error:
        return EvictionEnded(ticket.id, _result(error), error.message)
    except Unreachable as error:
        return EvictionEnded(ticket.id, Eviction.FAILED, str(error))
    return EvictionEnded(ticket.id, Eviction.EVICTED)


def _result(error: ApiError) -> Eviction:
    if error.status in (404, 409):
        return Eviction.GONE
    if error.status == 429 and BUDGET in error.message:
        return Eviction.FORBIDDEN
    return Eviction.FAILED
