"""CUDA_VISIBLE_DEVICES of the pods of examples/map-workloads: that of the scheduler's line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import parse
from scheduler.model.pods.pod_index import IndexRule
from scheduler.watch.decode.pods import POD, to_pod
from tests.unit.docs.sources import ROOT
from tests.unit.webhook.pods import environment, patched

EXAMPLES = ROOT / "examples" / "map-workloads"
#: Folder -> CUDA_VISIBLE_DEVICES of its pods with a map, in the order of their creation.
DEVICES = {
    "jobset": ["0", "1", "0", "1"],
    "jobset-group": ["0", "1", "0", "1"],
    "leaderworkerset": ["0", "0", "1", "1"],
    "mpijob": ["0,1", "0,1"],
    "podcliqueset": ["0,1", "0,1"],
    "pytorchjob": ["2,3", "0,1", "0,1"],
    "raycluster": ["0", "0", "1,2", "1,2"],
    "rollout": ["@cuda-visible-devices"] * 2,
    "sparkapplication": ["0", "0"],
    "trainjob": ["0,1", "0,1"],
}


def pods(folder: str) -> Iterator[dict[str, Any]]:
    """The pods with a map, as their controllers create them."""
    text = (EXAMPLES / folder / "created.yaml").read_text(encoding="utf-8")
    for document in yaml.safe_load_all(text):
        for one in [document] if document["kind"] == "Pod" else replicas(document):
            if well_known.MAP in one["metadata"].get("annotations", {}):
                yield json.loads(json.dumps(one))


def replicas(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pods of a Job, a StatefulSet or a ReplicaSet."""
    spec, kind = document["spec"], document["kind"]
    if "template" not in spec:
        return
    first = spec.get("ordinals", {}).get("start", 0)
    for number in range(first, first + spec.get("replicas", spec.get("parallelism", 0))):
        name = f"{document['metadata']['name']}-{number}"
        number_label = {
            "Job": {well_known.JOB_INDEX: str(number)},
            "StatefulSet": {well_known.STATEFULSET_INDEX: str(number)},
        }.get(kind, {})
        owner = {
            "apiVersion": document["apiVersion"],
            "kind": kind,
            "name": document["metadata"]["name"],
            "uid": "u",
            "controller": True,
        }
        metadata = {
            **spec["template"]["metadata"],
            **({"name": name} if kind == "StatefulSet" else {"generateName": f"{name}-"}),
            "labels": spec["template"]["metadata"]["labels"] | number_label,
            "ownerReferences": [owner],
        }
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": spec["template"]["spec"],
        }


@pytest.mark.parametrize(
    "folder", sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
)
def test_containers_see_the_devices_of_the_schedulers_line(folder: str) -> None:
    """A literal where the controller gives a number; the leaders and workers of a
    LeaderWorkerSet are shown before its webhook has labelled them.
    """
    found = []
    for body in pods(folder):
        (value,) = environment(patched(body)).values()
        found.append(value)
        pod = to_pod(POD.decode(json.dumps(body).encode()), "team")
        assert pod.map_text is not None
        entries = parse(pod.map_text).entries
        index = pod.index(len(entries))
        if index is IndexRule.ASSIGNED:
            assert value == "@cuda-visible-devices"
        else:
            assert isinstance(index, int)
            assert value == ",".join(map(str, entries[index].devices))

    assert found == DEVICES[folder]
