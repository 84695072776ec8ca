"""The states of an object since a version: a test that looks late misses none of them."""

from __future__ import annotations

import json

from tests.controlplane.workloads import Json
from tools.controlplane import ControlPlane


def states(plane: ControlPlane, path: str, since: Json) -> list[Json]:
    """Every state of an object after ``since``, from the history that the API server keeps for
    watches; ``path`` is the object's.
    """
    collection, _, name = path.rpartition("/")
    version = since["metadata"]["resourceVersion"]
    words = (f"fieldSelector=metadata.name%3D{name}", f"resourceVersion={version}")
    query = "&".join(("watch=true", "timeoutSeconds=1", *words))
    told = plane.kubectl("get", "--raw", f"{collection}?{query}")
    events = [json.loads(line) for line in told.splitlines()]
    assert all(event["type"] != "ERROR" for event in events), "the history does not reach so far"
    return [event["object"] for event in events]
