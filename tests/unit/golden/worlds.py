"""The clusters of the golden files, as the product reads them (``tools/golden/scheduling``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.watch.decode import nodes as decode_nodes
from scheduler.watch.decode import pods as decode_pods
from tests.builders import cluster, namespace

Json = dict[str, Any]
GOLDEN: Final = Path(__file__).parents[2] / "golden"


def rows(name: str) -> list[Json]:
    """The cases of a golden file."""
    found: list[Json] = json.loads((GOLDEN / name).read_text(encoding="utf-8"))
    return found


def world(row: Json) -> tuple[Cluster, Pod]:
    """The cluster of a case, and the pod that is decided."""
    state = cluster(
        *(namespace(one["name"], labels=one.get("labels")) for one in row.get("namespaces", ()))
    )
    for one in row["nodes"]:
        metadata = {"name": one["name"], "uid": one["name"], "labels": one.get("labels")}
        content = {
            "metadata": metadata,
            "spec": {"taints": one.get("taints", [])},
            "status": {"allocatable": one["offers"], "images": one.get("images", [])},
        }
        wire = decode_nodes.NODE.decode(msgspec.json.encode(content))
        state.upsert_node(decode_nodes.to_node(wire))
    for one in row["placed"] or ():
        state.upsert_pod(_pod(one))
    return state, _pod(row["pod"])


def _pod(one: Json) -> Pod:
    meta: Json = {"name": one["name"], "namespace": one["namespace"], "uid": one["name"]}
    meta["labels"] = one.get("labels", {})
    if one.get("deleting"):
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    started = one.get("started", 0)
    at = {"startTime": f"2026-01-01T00:{started // 60:02}:{started % 60:02}Z"} if started else {}
    content = {
        "metadata": meta,
        "spec": {"schedulerName": "gpu-scheduler", **one["spec"]},
        "status": {"phase": "Running" if started else "Pending", **at},
    }
    return decode_pods.to_pod(decode_pods.POD.decode(msgspec.json.encode(content)))
