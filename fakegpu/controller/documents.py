"""The documents of a plan, and comparisons with the observed state."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from fakegpu import names
from fakegpu.api_types import MapFacts, NodeFacts
from fakegpu.controller.plan_types import Plan, Settings, View
from fakegpu.node.mig import mig_manager
from fakegpu.node.node_labels import labels as labels_of
from fakegpu.node.numa_zones import document as zone_document
from fakegpu.topology.node_topology import NodeTopology, encode_yaml


def config_map(
    view: View, topology: NodeTopology, applied: mig_manager.Applied, settings: Settings
) -> bytes:
    """The node's ConfigMap."""
    annotations = {}
    if names.KWOK_ANNOTATION in view.node.annotations:
        annotations[names.KWOK_ANNOTATION] = view.node.annotations[names.KWOK_ANNOTATION]
    if applied.state:
        annotations[names.MIG_APPLIED] = str(applied)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": settings.map_prefix + view.node.name,
            "namespace": settings.namespace,
            "labels": {
                names.NODE_TOPOLOGY_LABEL: "true",
                names.NODE_NAME_LABEL: view.node.name[:63].rstrip("-."),
            },
            "annotations": annotations,
        },
        "data": {names.TOPOLOGY_KEY: encode_yaml(topology)},
    }
    return msgspec.json.encode(body)


def node_labels(
    node: NodeFacts,
    topology: NodeTopology,
    step: mig_manager.Step,
    settings: Settings,
) -> dict[str, str]:
    """The node's labels."""
    found: dict[str, str] = {}
    if settings.labels:
        numbered = settings.numbered and node.is_kwok
        found = labels_of(topology, is_kwok=node.is_kwok, is_index_assigned=numbered)
    if step.state:
        found[names.MIG_STATE] = step.state
    return found


def node_annotations(
    topology: NodeTopology, step: mig_manager.Step, unusable: Iterable[int]
) -> dict[str, str]:
    """The node's annotations."""
    found = {names.GPU_IDS: ",".join(gpu.id for gpu in topology.gpus)}
    if step.state:
        mapping = {
            str(index): [
                {
                    "position": one.position,
                    "device_uuid": one.id,
                    "gpu_instance_id": one.gpu_instance_id,
                }
                for one in gpu.instances
            ]
            for index, gpu in enumerate(topology.gpus)
            if gpu.has_mig
        }
        found[names.MIG_MAPPING] = base64.b64encode(msgspec.json.encode(mapping)).decode()
    if bad := ",".join(map(str, unusable)):
        found[names.UNUSABLE] = bad
    return found


def zones(node: NodeFacts, topology: NodeTopology) -> bytes:
    """The node's NodeResourceTopology."""
    return msgspec.json.encode(zone_document(node.name, node.uid, topology))


def is_recorded(plan_: Plan, record: MapFacts | None) -> bool:
    """Whether the ConfigMap equals the plan."""
    if record is None:
        return False
    wanted = msgspec.json.decode(plan_.config_map)
    meta = wanted["metadata"]
    return bool(
        record.data.get(names.TOPOLOGY_KEY) == wanted["data"][names.TOPOLOGY_KEY]
        and _has(record.labels, meta["labels"])
        and _has(record.annotations, meta["annotations"])
    )


def is_shown(plan_: Plan, node: NodeFacts) -> bool:
    """Whether the node's metadata and status equal the plan."""
    wanted: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [
        (node.labels, plan_.labels),
        (node.annotations, plan_.annotations),
    ]
    if plan_.amounts is not None:
        wanted.append((node.capacity, plan_.amounts.capacity))
        wanted.append((node.allocatable, plan_.amounts.allocatable))
    return all(_has(there, parts) for there, parts in wanted)


def _has(there: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(there.get(key) == value for key, value in wanted.items())
