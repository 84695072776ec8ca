"""Users with the built-in role ``edit`` in one namespace each, and the identity of one node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.controlplane.workloads import Json, Watcher, node_of, why
from tests.patience import PATIENCE_S
from tools.controlplane import ApiError, Client, ControlPlane, wait_until
from tools.product import Product

#: What the API server, its policies or a webhook answer to an object that they do not want.
REFUSALS: Final = (400, 403, 422)


class Tenant(Watcher):
    """One user in their own namespace, which this makes; ``labels`` are the namespace's."""

    def __init__(
        self, plane: ControlPlane, user: str, namespace: str, labels: Json | None = None
    ) -> None:
        super().__init__(plane, namespace)
        metadata = {"name": namespace, "labels": labels or {}}
        plane.client.create("/api/v1/namespaces", {"metadata": metadata})
        grant(plane, user, namespace, "edit")
        plane.wait_for_service_account(namespace)
        self.user = user
        self.client = plane.client_for_user(user)

    def is_refused(self, body: Json, *, dry_run: bool = False) -> bool:
        """Create an object; whether the API server did not take it."""
        path = self.path(body["kind"], "").rstrip("/") + ("?dryRun=All" if dry_run else "")
        return refuses(lambda: self.client.create(path, body))

    def wait_served(self, body: Json, product: Product, timeout_s: float = PATIENCE_S) -> Json:
        """Create a pod and return it once it has a node; a program that ends meanwhile fails it."""
        name = self.create(body)["metadata"]["name"]
        return self.wait_pod(name, "a node", lambda item: bool(node_of(item)), product, timeout_s)

    def wait_answered(self, prefix: str, product: Product, timeout_s: float = PATIENCE_S) -> str:
        """Wait until a pod with this prefix has a node or a sentence that says why it waits.

        Returns the sentence; it is empty for a pod that has a node.
        """

        def is_answered() -> bool:
            assert_unharmed(product)
            return any(node_of(item) or why(item) for item in self._of(prefix))

        what = f"a node or a condition of {prefix} in {self.namespace}"
        wait_until(is_answered, what=what, timeout_s=timeout_s, last=lambda: self._of(prefix))
        return next(why(item) for item in self._of(prefix) if node_of(item) or why(item))

    def _of(self, prefix: str) -> list[Json]:
        return [item for item in self.pods() if item["metadata"]["name"].startswith(prefix)]

    def wait_pod(
        self, name: str, what: str, check: Any, product: Product, timeout_s: float = PATIENCE_S
    ) -> Json:
        """Wait for a state of one pod while the product's programs live."""

        def is_so(seen: Json | None) -> bool:
            assert_unharmed(product)
            return seen is not None and bool(check(seen))

        path = self.path("Pod", name)
        item: Json = self.client.wait_for(
            path, is_so, what=f"pod {name} with {what}", timeout_s=timeout_s
        )
        return item

    def remove_everything(self) -> None:
        """Delete the namespace's workloads and wait until their pods are gone."""
        for kind in ("Deployment", "StatefulSet", "Job", "Pod"):
            path = self.path(kind, "").rstrip("/")
            self.client.delete(path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        one = f"{self.pods_path}?limit=1"  # they may be large
        self.client.wait_for(one, lambda seen: not seen["items"], what=f"no pods of {self.user}")


def grant(plane: ControlPlane, user: str, namespace: str, role: str) -> None:
    """Give a user a ClusterRole in one namespace, and wait until the API server knows of it."""
    group = "rbac.authorization.k8s.io"
    body = {
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
    }
    plane.client.create(f"/apis/{group}/v1/namespaces/{namespace}/rolebindings", body)
    [rule, *_] = plane.client.get(f"/apis/{group}/v1/clusterroles/{role}")["rules"]
    resource, _, subresource = rule["resources"][0].partition("/")
    asked = {"namespace": namespace, "verb": rule["verbs"][0], "group": rule["apiGroups"][0]}
    asked |= {"resource": resource, "subresource": subresource}
    spec = {"user": user, "resourceAttributes": asked}
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    wait_until(
        lambda: bool(plane.client.create(reviews, {"spec": spec})["status"]["allowed"]),
        what=f"the API server to know the role {role} of {user}",
    )


def kubelet(plane: ControlPlane, node: str) -> Client:
    """A client that is the kubelet of this node and of no other."""
    return plane.client_for_user(f"system:node:{node}", ["system:nodes"])


def said(write: Callable[[], object]) -> str:
    """What the API server answers a write with; nothing if it takes it."""
    try:
        write()
    except ApiError as error:
        return f"{error.status} {error}"
    return ""


def refuses(request: Any) -> bool:
    """Whether the API server refuses a request; any other error is raised."""
    try:
        request()
    except ApiError as error:
        if error.status not in REFUSALS:
            raise
        return True
    return False


def assert_unharmed(product: Product) -> None:
    """Both programs are the processes that were started."""
    for name in ("scheduler", "webhook"):
        assert product.is_running(name), f"{name} ended:\n{product.log(name)[-2000:]}"
