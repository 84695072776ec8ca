"""Writes to the API server: server-side apply by one field manager, events, annotations.

Applied under the uid of the observed node: otherwise an apply would recreate a node that was
deleted meanwhile.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
import structlog

from fakegpu import names
from fakegpu.api_types import NodeFacts
from fakegpu.controller.plan_types import NOT_ADMITTED, Mark, Note
from fakegpu.node.admission import Refusal
from fakegpu.node.advertised_devices import Amounts
from scheduler.model.crd import mig_partition_codec
from scheduler.model.crd.mig_partition import MigInstance
from scheduler.watch.client import MERGE_PATCH, ApiError, Client, Unreachable
from scheduler.watch.decode.api_types import Versioned

APPLY: Final = "application/apply-patch+yaml"
PARAMS: Final = {"fieldManager": names.OPERATOR, "force": "true"}
NOTE_MAX: Final = 1024
ZONES: Final = f"/apis/{names.ZONES_API}/noderesourcetopologies"

_WRITTEN: Final = msgspec.json.Decoder(Versioned)

log = structlog.get_logger("fakegpu")


class Writer:
    """One client, one namespace for ConfigMaps, and the scheduler's namespace for MigPartition
    status.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        partitions_namespace: str,
        instance: str,
        wall: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._maps = f"/api/v1/namespaces/{namespace}/configmaps"
        self._cuts_namespace = partitions_namespace
        self._instance = instance[:128]
        self._wall = wall

    async def config_map(self, name: str, body: bytes) -> int:
        """Create or update a ConfigMap; returns its version."""
        return await self._apply(f"{self._maps}/{name}", body)

    async def remove_map(self, name: str) -> None:
        """Delete a ConfigMap."""
        await self._unless_gone("DELETE", f"{self._maps}/{name}", None)

    async def node(
        self,
        node: NodeFacts,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        amounts: Amounts | None,
    ) -> int:
        """Apply own labels, annotations and resources; returns the node's version.

        On KWOK nodes all are written through the status in one request: the API server accepts
        labels and annotations there too, and watchers get one event fewer.
        """
        meta = {"labels": labels, "annotations": annotations}
        path = f"/api/v1/nodes/{node.name}"
        if not node.is_kwok:
            return await self._apply(path, _node_body(node, meta, None))
        return await self._apply(f"{path}/status", _node_body(node, meta, amounts))

    async def zones(self, node: str, body: bytes) -> None:
        """Apply the node's NodeResourceTopology."""
        await self._apply(f"{ZONES}/{node}", body)

    async def remove_zones(self, node: str) -> None:
        """Delete a node's NodeResourceTopology."""
        await self._unless_gone("DELETE", f"{ZONES}/{node}", None)

    async def answer(self, node: str, instances: Iterable[MigInstance]) -> None:
        """Write the existing instances into the MigPartition status."""
        path = f"{mig_partition_codec.path(self._cuts_namespace, node)}/status"
        await self._unless_gone(
            "PATCH", path, mig_partition_codec.encode_status(instances), MERGE_PATCH
        )

    async def mark(self, mark: Mark) -> None:
        """Annotate a reservation pod with its device."""
        path = f"/api/v1/namespaces/{mark.namespace}/pods/{mark.pod}"
        meta = {"uid": mark.uid, "annotations": {names.RESERVED_INDEX: mark.device}}
        body = msgspec.json.encode({"metadata": meta})
        await self._unless_gone("PATCH", path, body, MERGE_PATCH)

    async def refuse(self, refusal: Refusal) -> None:
        """Fail a pod like a kubelet that does not admit it."""
        pod = refusal.pod
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/status"
        text = f"Pod was rejected: Allocate failed: {refusal.text}"
        status = {"phase": "Failed", "reason": NOT_ADMITTED, "message": text}
        body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})
        await self._unless_gone("PATCH", path, body, MERGE_PATCH)

    async def event(self, node: NodeFacts, note: Note) -> None:
        """Send an event; a failed one is not repeated."""
        namespace, body = self._event(node, note)
        path = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        try:
            await self._client.request("POST", path, msgspec.json.encode(body))
        except (ApiError, Unreachable) as error:
            log.warning("event not sent", node=node.name, problem=str(error))

    def _event(self, node: NodeFacts, note: Note) -> tuple[str, dict[str, Any]]:
        # The kubelet's own events are about a node by its name, and `kubectl describe` selects so.
        about = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.name}
        namespace = "default"
        if note.pod is not None:
            pod, namespace = note.pod, note.pod.namespace
            about = {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid}
            about["namespace"] = namespace
        stamp = self._wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        content = f"{about['uid']}/{note.reason}/{note.text}/{stamp}"
        digest = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
        return namespace, {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{about['name'][:200]}.{digest}", "namespace": namespace},
            "eventTime": stamp,
            "reportingController": names.OPERATOR,
            "reportingInstance": self._instance,
            "action": "Simulating",
            "reason": note.reason,
            "regarding": about,
            "note": note.text[:NOTE_MAX],
            "type": "Warning" if note.is_warning else "Normal",
        }

    async def _apply(self, path: str, body: bytes) -> int:
        content = await self._client.request("PATCH", path, body, params=PARAMS, content_type=APPLY)
        return int(_WRITTEN.decode(content).metadata.resource_version)

    async def _unless_gone(
        self, method: str, path: str, body: bytes | None, content_type: str = "application/json"
    ) -> None:
        try:
            await self._client.request(method, path, body, content_type=content_type)
        except ApiError as error:
            if error.status not in (404, 409):
                raise


def _node_body(node: NodeFacts, meta: Mapping[str, Any], amounts: Amounts | None) -> bytes:
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "uid": node.uid, **meta},
    }
    if amounts is not None:
        body["status"] = {
            "capacity": {name: str(n) for name, n in amounts.capacity.items()},
            "allocatable": {name: str(n) for name, n in amounts.allocatable.items()},
        }
    return msgspec.json.encode(body)
