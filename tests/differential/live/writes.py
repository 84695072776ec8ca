"""Writes to the API server; each of them ends when our watches have seen it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler.watch.client import JSON, MERGE_PATCH, ApiError, Client
from scheduler.watch.decode.objects import read_pod
from tests.differential import manifests
from tests.differential.dra.objects import CLAIMS
from tests.differential.live.mirror import HarnessError, Mirror, Seen
from tests.differential.manifests import key_of
from tests.differential.our_side import SOURCES
from tests.differential.sequence import NodeForm

Json = dict[str, Any]

NODES: Final = "/api/v1/nodes"
NAMESPACES: Final = "/api/v1/namespaces"
PRIORITY_CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
JSON_PATCH: Final = "application/json-patch+json"
NOT_FOUND: Final = 404
#: Kinds that no sequence deletes, or in a way of their own.
SHARED: Final = frozenset({"pods", "nodes", "namespaces", "resourcequotas"})
#: The others.
OTHERS: Final = tuple(kind for kind in SOURCES if kind not in SHARED)
#: Longer than any run: a pod that terminates stays until it is deleted.
GRACE_S: Final = 3600
#: What schedulers read of a pod and a client writes.
_READ: Final = ("requests", "affinity", "spread", "tolerations", "host_ports", "priority")


class Writer:
    """Writes as the administrator."""

    def __init__(self, client: Client, mirror: Mirror) -> None:
        self._client = client
        self._mirror = mirror
        #: Kinds that were written since this was emptied. Not pods: kube-scheduler handles the
        #: events of all pods in their order (``eventhandlers.go``), so those before a new one.
        self.written: set[str] = set()

    async def prepare(self) -> None:
        """Create what all sequences share."""
        for name in manifests.PRIORITIES:
            await self._send("POST", PRIORITY_CLASSES, manifests.priority_class(name))

    async def empty(self) -> None:
        """Delete every pod, node and object, all at once."""
        objects = self._mirror.objects
        collections = {_path(key).rpartition("/")[0] for key in objects["pods"]}
        await asyncio.gather(
            *map(self._delete, collections | ({NODES} if objects["nodes"] else set())),
            *(self.delete_object(kind, key) for kind in OTHERS for key in objects[kind]),
        )
        await self._mirror.until(
            lambda: not (objects["pods"] or objects["nodes"]), "pods and nodes to be gone"
        )
        self.written.add("nodes")

    # --- pods: ``key`` is ``namespace/name`` --------------------------------------------------

    async def create_pod(self, body: Json) -> Seen:
        """Create a pod; the replay would see it as the API server stored it."""
        key = key_of(body)
        created = await self._send("POST", _path(key).rpartition("/")[0], body)
        await self._mirror.has_version("pods", key, _version(created))
        seen = self._mirror.objects["pods"][key]
        stored = self._mirror.side.pod(seen.metadata.uid)
        made = read_pod(msgspec.json.encode(manifests.admitted(body)))
        for field in _READ:
            if getattr(made, field) != getattr(stored, field):
                raise HarnessError(f"{key}: the API server stored another {field}: {stored}")
        return seen

    async def remove_pod(self, key: str) -> None:
        """Delete a pod at once."""
        await self._delete(_path(key))
        await self._mirror.lacks("pods", key)

    async def terminate_pod(self, key: str) -> None:
        """Delete a placed pod with a grace period: without a kubelet it stays."""
        await self._delete(_path(key), GRACE_S)
        await self._mirror.pod_until(key, lambda pod: bool(pod.metadata.deletion_timestamp))

    async def start_pod(self, key: str, time: str) -> None:
        """Note when a pod started, as its kubelet would."""
        patch = {"status": {"phase": "Running", "startTime": time}}
        answer = await self._send("PATCH", f"{_path(key)}/status", patch, MERGE_PATCH)
        await self._mirror.has_version("pods", key, _version(answer))

    async def end_pod(self, key: str) -> None:
        """Let a pod succeed, which ends it for schedulers, and delete it."""
        patch = {"status": {"phase": "Succeeded"}}
        await self._send("PATCH", f"{_path(key)}/status", patch, MERGE_PATCH)
        await self._mirror.lacks("pods", key)
        await self._delete(_path(key))

    async def label_pod(self, key: str, labels: Mapping[str, str]) -> None:
        """Give a pod other labels."""
        patch = [{"op": "add", "path": "/metadata/labels", "value": labels}]
        answer = await self._send("PATCH", _path(key), patch, JSON_PATCH)
        await self._mirror.has_version("pods", key, _version(answer))

    async def open_gate(self, key: str) -> None:
        """Let schedulers see a pod that was created with a scheduling gate."""
        patch = [{"op": "remove", "path": "/spec/schedulingGates"}]
        answer = await self._send("PATCH", _path(key), patch, JSON_PATCH)
        await self._mirror.has_version("pods", key, _version(answer))

    # --- nodes and namespaces ----------------------------------------------------------------

    async def set_node(self, form: NodeForm) -> None:
        """Create a node, or change it."""
        body, is_new = manifests.node(form), form.name not in self._mirror.objects["nodes"]
        await self._put("nodes", NODES, body)
        if not is_new:  # the status of a new node is stored with it
            answer = await self._send("PUT", f"{NODES}/{form.name}/status", body)
            await self._mirror.has_version("nodes", form.name, _version(answer))

    async def delete_node(self, name: str) -> None:
        """Delete a node if it is there."""
        if name in self._mirror.objects["nodes"]:
            await self._delete(f"{NODES}/{name}")
            await self._mirror.lacks("nodes", name)
            self.written.add("nodes")

    async def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Create a namespace, or change its labels."""
        await self._put("namespaces", NAMESPACES, manifests.namespace(name, labels))

    async def _put(self, kind: str, collection: str, body: Json) -> None:
        key, name = key_of(body), body["metadata"]["name"]
        known = self._mirror.objects[kind].get(key)
        if known is not None:
            version = {"resourceVersion": known.metadata.resource_version}
            body = {**body, "metadata": {**body["metadata"], **version}}
            answer = await self._send("PUT", f"{collection}/{name}", body)
        else:
            answer = await self._send("POST", collection, body)
        await self._mirror.has_version(kind, key, _version(answer))
        self.written.add(kind)

    async def set_object(self, kind: str, manifest: Json) -> None:
        """Create an object of another watched kind, or change it; its status is written too.

        The spec of a claim does not change.
        """
        if kind == CLAIMS and key_of(manifest) in self._mirror.objects[kind]:
            return
        collection = _collection(kind, manifest["metadata"].get("namespace", ""))
        claim = manifest.get("spec", {}).get("claimRef")
        if claim:
            key = f"{claim['namespace']}/{claim['name']}"
            bound = self._mirror.objects["persistentvolumeclaims"].get(key)
            uid = bound.metadata.uid if bound and manifests.is_bound(manifest) else None
            manifest = manifests.with_claim_uid(manifest, uid)
        await self._put(kind, collection, manifest)
        if "status" in manifest:
            await self.set_status(kind, manifest)

    async def set_status(self, kind: str, manifest: Json) -> None:
        """Change the status of an object."""
        collection = _collection(kind, manifest["metadata"].get("namespace", ""))
        path = f"{collection}/{manifest['metadata']['name']}/status"
        answer = await self._send("PATCH", path, {"status": manifest["status"]}, MERGE_PATCH)
        await self._mirror.has_version(kind, key_of(manifest), _version(answer))
        if kind != "pods":
            self.written.add(kind)

    async def read(self, kind: str, key: str) -> Json:
        """An object as it is now."""
        namespace, _, name = key.rpartition("/")
        content = await self._client.request("GET", f"{_collection(kind, namespace)}/{name}")
        answer: Json = json.loads(content)
        return answer

    async def delete_object(self, kind: str, key: str) -> None:
        """Delete such an object if it is there."""
        if key in self._mirror.objects[kind]:
            namespace, _, name = key.rpartition("/")
            path = f"{_collection(kind, namespace)}/{name}"
            if kind == CLAIMS:  # one that is allocated is protected
                await self._send("PATCH", path, {"metadata": {"finalizers": None}}, MERGE_PATCH)
            await self._delete(path)
            await self._mirror.lacks(kind, key)
            self.written.add(kind)

    # --- requests ----------------------------------------------------------------------------

    async def _delete(self, path: str, grace_s: int = 0) -> None:
        try:
            await self._send("DELETE", path, {"gracePeriodSeconds": grace_s})
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise

    async def _send(self, method: str, path: str, body: object, content_type: str = JSON) -> Json:
        content = await self._client.request(
            method, path, msgspec.json.encode(body), content_type=content_type
        )
        answer: Json = json.loads(content)
        return answer


def _path(key: str) -> str:
    namespace, name = key.split("/")
    return f"{NAMESPACES}/{namespace}/pods/{name}"


def _collection(kind: str, namespace: str) -> str:
    """The path of a kind, in a namespace where it has one."""
    path = SOURCES[kind].path
    if not namespace:
        return path
    group, _, plural = path.rpartition("/")
    return f"{group}/namespaces/{namespace}/{plural}"


def _version(answer: Json) -> int:
    return int(answer["metadata"]["resourceVersion"])
