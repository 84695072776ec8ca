"""Cluster-wide objects of one test, which are named after its namespace."""

from __future__ import annotations

from tests.controlplane.workloads import Json, Watcher, as_created
from tools.controlplane import ControlPlane


class OwnObjects(Watcher):
    """Creates cluster-wide objects; ``made`` are their paths, for the fixture that deletes them."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        super().__init__(plane, namespace)
        self.made: list[str] = []

    def named(self, name: str) -> str:
        """The name of a cluster-wide object of this test."""
        return f"{self.namespace}-{name}"

    def make(self, path: str, body: Json) -> Json:
        """Create a cluster-wide object."""
        self.made.append(f"{path}/{body['metadata']['name']}")
        answer: Json = self.client.create(path, as_created(body))
        return answer
