"""Manifests for the tests on the real API server, and how to read what became of them."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.patience import PATIENCE_S
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

Json = dict[str, Any]
SEED_MAP = "0=node1:0,1\n1=node2:2\n2=node3:0,1,2\n3=node4:3\n4=node4:3\n"


def pod_spec(
    *,
    limits: dict[str, str] | None = None,
    scheduler: str = "gpu-scheduler",
    **more: Any,
) -> Json:
    """A pod's spec with one container."""
    container: Json = {"name": "app", "image": "app"}
    if limits:
        container["resources"] = {"limits": limits}
    return {
        "schedulerName": scheduler,
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        **more,
    }


def pod(
    name: str, *, annotations: dict[str, str] | None = None, labels: Any = None, **spec: Any
) -> Json:
    """A bare pod."""
    meta = {"name": name, "annotations": annotations or {}, "labels": labels or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod_spec(**spec)}


def controlled(
    kind: str,
    name: str,
    *,
    replicas: int,
    annotations: dict[str, str] | None = None,
    strategy: Json | None = None,
    **spec: Any,
) -> Json:
    """A StatefulSet or Deployment whose pods carry ``app: <name>``."""
    labels = {"app": name}
    body: Json = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels, "annotations": annotations or {}},
            "spec": pod_spec(**spec),
        },
    }
    if kind == "StatefulSet":
        body |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    if strategy is not None:
        body["updateStrategy" if kind == "StatefulSet" else "strategy"] = strategy
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name}, "spec": body}


def job(name: str, *, completions: int, indexed: bool = False, **more: Any) -> Json:
    """A Job whose pods all run at once."""
    annotations = more.pop("annotations", {})
    spec = pod_spec(**more)
    spec["restartPolicy"] = "Never"
    body: Json = {
        "completions": completions,
        "parallelism": completions,
        "completionMode": "Indexed" if indexed else "NonIndexed",
        "template": {"metadata": {"annotations": annotations}, "spec": spec},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


PATHS = {
    "Pod": "/api/v1/namespaces/{}/pods",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
}


class Watcher:
    """Creates objects in one namespace and waits for what becomes of its pods."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.client = plane.client
        self.namespace = namespace
        self.pods_path = PATHS["Pod"].format(namespace)

    def create(self, body: Json) -> Json:
        """Create an object; returns it as stored."""
        answer: Json = self.client.create(PATHS[body["kind"]].format(self.namespace), body)
        return answer

    def bind(self, name: str, node_name: str, annotations: dict[str, str]) -> None:
        """Bind a pod as a scheduler does, with what that writes on it."""
        body = {
            "metadata": {"name": name, "annotations": annotations},
            "target": {"kind": "Node", "name": node_name},
        }
        self.client.create(f"{self.pods_path}/{name}/binding", body)

    def evict(self, name: str) -> None:
        """Evict a pod as ``kubectl drain`` does."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        self.client.create(f"{self.pods_path}/{name}/eviction", body)

    def path(self, kind: str, name: str) -> str:
        """The path of one object."""
        return f"{PATHS[kind].format(self.namespace)}/{name}"

    def pods(self) -> list[Json]:
        """All pods, by name."""
        items: list[Json] = self.client.get(self.pods_path)["items"]
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))

    def wait(self, what: str, check: Any, timeout_s: float = PATIENCE_S) -> list[Json]:
        """Wait until the list of pods is as wanted; returns it."""
        seen = self.client.wait_for(
            self.pods_path,
            lambda answer: check(answer["items"] if answer else []),
            what=f"{what} in {self.namespace}",
            timeout_s=timeout_s,
        )
        items: list[Json] = seen["items"]
        return sorted(items, key=lambda item: str(item["metadata"]["name"]))

    def wait_bound(self, count: int, timeout_s: float = PATIENCE_S) -> list[Json]:
        """Wait until exactly this many pods have a node."""
        return self.wait(
            f"{count} bound pods",
            lambda items: sum(1 for item in items if node_of(item)) == count,
            timeout_s,
        )

    def wait_bound_to(self, nodes: set[str]) -> list[Json]:
        """Wait until pods have exactly these nodes, one each."""
        return self.wait(
            f"pods on {', '.join(sorted(nodes))}",
            lambda items: sorted(filter(None, map(node_of, items))) == sorted(nodes),
        )

    def wait_explained(self, name: str, text: str, timeout_s: float = PATIENCE_S) -> Json:
        """Wait until a pod's condition contains this text."""
        answer: Json = self.client.wait_for(
            f"{self.pods_path}/{name}",
            lambda seen: seen is not None and text in why(seen),
            what=f"pod {name} to be explained with {text!r}",
            timeout_s=timeout_s,
        )
        return answer

    def wait_reason(self, name: str, *reasons: str) -> Json:
        """Wait until a pod's condition has one of these reasons."""
        answer: Json = self.client.wait_for(
            f"{self.pods_path}/{name}",
            lambda seen: seen is not None and waits_for(seen) in reasons,
            what=f"pod {name} to wait for {' or '.join(reasons)}",
        )
        return answer

    def events(self, name: str) -> list[Json]:
        """The events about one pod."""
        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        items: list[Json] = self.client.get(path)["items"]
        return [item for item in items if item["regarding"].get("name") == name]

    def wait_told(self, name: str, *reasons: str) -> None:
        """Wait until events with all of these reasons are about a pod; they are sent by the way."""
        wait_until(
            lambda: {*reasons} <= {event["reason"] for event in self.events(name)},
            what=f"events {', '.join(reasons)} about {name}",
            last=lambda: self.events(name),
        )


def node_of(item: Json) -> str:
    """The node a pod is bound to, or an empty text."""
    return str(item["spec"].get("nodeName", ""))


def annotation(item: Json, key: str) -> str | None:
    """One annotation of a pod."""
    value = item["metadata"].get("annotations", {}).get(key)
    return None if value is None else str(value)


def cuda(item: Json) -> str | None:
    """CUDA_VISIBLE_DEVICES as the pod's first container will see it."""
    for entry in item["spec"]["containers"][0].get("env", []):
        if entry["name"] == "CUDA_VISIBLE_DEVICES":
            if "value" in entry:
                return str(entry["value"])
            path = entry["valueFrom"]["fieldRef"]["fieldPath"]
            return annotation(item, path.removeprefix("metadata.annotations['").removesuffix("']"))
    return None


def tier(item: Json) -> dict[str, str]:
    """The GPU resources that a pod's first container requests."""
    requests = item["spec"]["containers"][0].get("resources", {}).get("requests", {})
    return {name: count for name, count in requests.items() if name.startswith("nvidia.com/")}


def why(item: Json) -> str:
    """The message of the PodScheduled condition when it is False."""
    return str(_refusal(item).get("message", ""))


def waits_for(item: Json) -> str:
    """The reason of the PodScheduled condition when it is False."""
    return str(_refusal(item).get("reason", ""))


def _refusal(item: Json) -> Json:
    for condition in item.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            found: Json = condition
            return found
    return {}


@contextmanager
def away(product: Product, name: str, *, crash: bool = False) -> Iterator[None]:
    """A program of the product is not there for as long as the block lasts; then it is back.

    The lease of a killed scheduler does not keep the next one waiting.
    """
    try:
        (product.kill if crash else product.stop)(name)
        if crash and name == "scheduler":
            product.free_lease()
        yield
    finally:
        (product.start_scheduler if name == "scheduler" else product.start_webhook)()


def wait_logged(product: Product, name: str, line: str) -> None:
    """Wait until a program of the product has said it: it acts first and tells of it then."""
    wait_until(lambda: line in product.log(name), what=f"{line!r} in the log of the {name}")


def fetch(port: int, path: str) -> str:
    """Read a page of one of our own servers on the loopback interface."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


def as_created(body: Json) -> Json:
    """An object as it is created: without what the API server writes itself."""
    meta = {k: v for k, v in body["metadata"].items() if k not in ("uid", "resourceVersion")}
    return {**body, "metadata": meta}
