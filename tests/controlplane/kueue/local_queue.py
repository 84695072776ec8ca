"""A queue of Kueue for the pods of one namespace."""

from __future__ import annotations

from typing import Any, Final

from tests.controlplane.workloads import Watcher

Json = dict[str, Any]
GPU: Final = "nvidia.com/gpu"
API: Final = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
NAME: Final = "gpus"
#: What marks a pod or a controller for the queue.
IN_QUEUE: Final = {QUEUE_LABEL: NAME}
#: The node label of the flavor; its value is the namespace.
POOL: Final = "example.com/pool"


class Queue:
    """It admits so many GPUs, on the nodes of its flavor; while it is held, nothing."""

    def __init__(self, here: Watcher, *, gpus: int, is_held: bool = False) -> None:
        self._client = here.client
        self._name = name = here.namespace
        self._create("resourceflavors", "ResourceFlavor", name, {"nodeLabels": {POOL: name}})
        quota = {"name": GPU, "nominalQuota": str(gpus)}
        group = {
            "coveredResources": [GPU],
            "flavors": [{"name": name, "resources": [quota]}],
        }
        spec: Json = {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "stopPolicy": "Hold" if is_held else "None",
        }
        self._create("clusterqueues", "ClusterQueue", name, spec)
        local = f"namespaces/{name}/localqueues"
        self._create(local, "LocalQueue", NAME, {"clusterQueue": name})

    def release(self) -> None:
        """Admit what waits."""
        path = f"{API}/clusterqueues/{self._name}"
        self._client.patch(path, {"spec": {"stopPolicy": "None"}})

    def _create(self, path: str, kind: str, name: str, spec: Json) -> None:
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        self._client.create(f"{API}/{path}", body)


def remove_workloads(here: Watcher) -> None:
    """Delete what Kueue has created for the pods of the namespace."""
    here.client.request("DELETE", f"{API}/namespaces/{here.namespace}/workloads")
