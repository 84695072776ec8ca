"""Looks at nodes as the fake GPU operator's users do, and changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from tests.controlplane.workloads import Json
from tests.patience import PATIENCE_S
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.client import ApiError
from tools.fake_operator import NAMESPACE, FakeOperator

NodeCheck = Callable[[Json], bool]


def nvidia(amounts: Json) -> dict[str, str]:
    return {name: count for name, count in amounts.items() if name.startswith("nvidia.com/")}


def wait_kind(cp: ControlPlane, path: str) -> None:
    """Wait until a kind that was just defined is served; before that it is not there, or busy."""

    def is_served() -> bool:
        try:
            cp.client.get(path)
        except ApiError as error:
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.TOO_MANY_REQUESTS):
                raise
            return False
        return True

    wait_until(is_served, what=f"{path} to be served")


@contextmanager
def killed(operator: FakeOperator, *, is_lease_freed: bool = True) -> Iterator[None]:
    """Without the operator for as long as the block lasts, as after a crash; then it is back.

    Its lease does not keep the next one waiting.
    """
    try:
        operator.kill()
        if is_lease_freed:
            operator.free_lease()
        yield
    finally:
        operator.start()


class Nodes:
    """Looks at nodes, and changes them as users do."""

    def __init__(self, cp: ControlPlane) -> None:
        self.client = cp.client

    def change(self, name: str, *, labels: Json | None = None, notes: Json | None = None) -> None:
        body = {"metadata": {"labels": labels or {}, "annotations": notes or {}}}
        self.client.patch(f"/api/v1/nodes/{name}", body)

    def wait(self, name: str, what: str, check: NodeCheck, timeout_s: float = PATIENCE_S) -> Json:
        node: Json = self.client.wait_for(
            f"/api/v1/nodes/{name}",
            lambda seen: seen is not None and check(seen),
            what=f"{what} on {name}",
            timeout_s=timeout_s,
        )
        return node

    def wait_offer(self, name: str, wanted: dict[str, str], usable: Any = None) -> Json:
        """Capacity and allocatable are exactly these of NVIDIA's resources."""
        return self.wait(
            name,
            f"{wanted} (usable {usable or wanted})",
            lambda node: (
                nvidia(node["status"]["capacity"]) == wanted
                and nvidia(node["status"]["allocatable"]) == (usable or wanted)
            ),
        )

    def topology(self, name: str) -> str:
        """The text of a node's ConfigMap."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-{name}"
        return str(self.client.get(path)["data"]["topology.yml"])

    def wait_no_map(self, name: str) -> None:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/topology-{name}"
        self.client.wait_for(path, lambda seen: seen is None, what=f"the map of {name} to go")

    def notes(self, name: str) -> list[Json]:
        items = self.client.get("/apis/events.k8s.io/v1/namespaces/default/events")["items"]
        ours = [one for one in items if one.get("reportingController") == "fake-gpu-operator"]
        return [one for one in ours if one["regarding"].get("name") == name]
