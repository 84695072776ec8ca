"""Small worlds for tests: pods, nodes and namespaces by keyword, read as the product reads them.

A builder writes the JSON that the API server would send and lets ``watch/decode/pods`` read it, so
a test never holds a pod that could not arrive over the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack

import msgspec

from scheduler.bind.binder import binding_annotations
from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement, Rejection
from scheduler.framework.pipeline import Pipeline
from scheduler.framework.settings import Settings
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.crd.mig_partition import MigInstance, NodePartitions
from scheduler.model.crd.migration import Migration, MigrationKind
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.dra.objects import DraObject
from scheduler.model.gpu.device import Devices, parse_devices
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Owner, Pod
from scheduler.model.reasons.reason import ReasonCode, sentence
from scheduler.model.teams.team import TeamTable
from scheduler.model.volumes.storage import StorageObject
from scheduler.plugins import default_pipeline
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold
from scheduler.state.snapshot import Avoided, GpusInBackoff
from scheduler.watch.decode import nodes as decode_nodes
from scheduler.watch.decode import pods as decode_pods

Json = dict[str, Any]

GPU = "nvidia.com/gpu"
MIG_1G = "nvidia.com/mig-1g.10gb"
MIG_2G = "nvidia.com/mig-2g.20gb"
MIG_3G = "nvidia.com/mig-3g.40gb"

#: Where Kubernetes has the controllers that tests name without an API group.
API_GROUPS = {
    **dict.fromkeys(("ReplicaSet", "StatefulSet", "DaemonSet", "Deployment"), "apps"),
    **dict.fromkeys(("Job", "CronJob"), "batch"),
}

Seen = Pod | Node | Namespace | Avoided | NodePartitions | GpusInBackoff
#: Maps are allowed in every namespace, as in the demo.
ALLOW_ALL_MAPS = default_pipeline(Settings(maps_allow="all"))


class PodFields(TypedDict, total=False):
    """The options of a test's pod; everything else has ordinary values."""

    namespace: str
    uid: str
    created: int
    gpus: int
    mig: Mapping[str, int]
    requests: Mapping[str, str | int]
    containers: Sequence[Json]
    init: Sequence[Json]
    map: str
    owner: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    priority: int
    scheduler: str
    node: str
    devices: str
    index: int
    phase: str
    gates: Sequence[str]
    selector: Mapping[str, str]
    tolerations: Sequence[Json]
    ports: Sequence[Json]
    deleting: bool
    nominated: str
    spec: Mapping[str, Any]
    status: Mapping[str, Any]


def pod(name: str = "p", **fields: Unpack[PodFields]) -> Pod:
    """A pod as the watch delivers it; ``owner`` is ``Kind/name`` or ``Deployment/name@revision``.

    A kind of another API group is written ``RayCluster.ray.io/name``.

    ``mig`` maps a profile to a count, ``devices`` and ``index`` are the Binding's annotations.
    """
    return decode_pods.to_pod(decode_pods.POD.decode(msgspec.json.encode(pod_json(name, **fields))))


def pod_json(name: str = "p", **fields: Unpack[PodFields]) -> Json:
    """The same pod as the API's JSON."""
    namespace = fields.get("namespace", "team")
    owner, owner_labels = _owner(fields.get("owner", ""))
    meta: Json = {
        "name": name,
        "namespace": namespace,
        "uid": fields.get("uid", f"{namespace}-{name}"),
        "creationTimestamp": _time(fields.get("created", 0)),
        "labels": {**owner_labels, **fields.get("labels", {})},
        "annotations": _annotations(fields),
    }
    if owner:
        meta["ownerReferences"] = [owner]
    if fields.get("deleting"):
        meta["deletionTimestamp"] = _time(1)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": _spec(fields),
        "status": {
            "phase": fields.get("phase", "Pending"),
            "nominatedNodeName": fields.get("nominated", ""),
            **fields.get("status", {}),
        },
    }


def _spec(fields: PodFields) -> Json:
    containers = list(fields.get("containers", ())) or [container(requests=_requests(fields))]
    if "ports" in fields:
        containers[0] = {**containers[0], "ports": list(fields["ports"])}
    return {
        "schedulerName": fields.get("scheduler", well_known.SCHEDULER_NAME),
        "nodeName": fields.get("node", ""),
        "priority": fields.get("priority", 0),
        "schedulingGates": [{"name": gate} for gate in fields.get("gates", ())],
        "nodeSelector": dict(fields.get("selector", {})),
        "tolerations": list(fields.get("tolerations", ())),
        "containers": containers,
        "initContainers": list(fields.get("init", ())),
        **fields.get("spec", {}),
    }


def container(
    name: str = "app",
    *,
    gpus: int = 0,
    requests: Mapping[str, str | int] | None = None,
    env: Sequence[Json] = (),
    sidecar: bool = False,
) -> Json:
    """A container; limits repeat the requests, as extended resources must."""
    wanted = {**(requests or {}), **({GPU: gpus} if gpus else {})}
    amounts = {resource: str(amount) for resource, amount in wanted.items()}
    return {
        "name": name,
        "image": "registry.example/app:1",
        "env": list(env),
        "resources": {"requests": amounts, "limits": amounts},
        **({"restartPolicy": "Always"} if sidecar else {}),
    }


def literal(value: str) -> Json:
    """An environment entry with the devices written out."""
    return {"name": well_known.CUDA_ENV, "value": value}


def downward(key: str = well_known.CUDA_VISIBLE_DEVICES) -> Json:
    """An environment entry that reads the devices from an annotation."""
    path = f"metadata.annotations['{key}']"
    return {"name": well_known.CUDA_ENV, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _requests(fields: PodFields) -> Json:
    requests: Json = dict(fields.get("requests", {}))
    if "gpus" in fields:
        requests[GPU] = fields["gpus"]
    requests |= {well_known.mig_resource(p): count for p, count in fields.get("mig", {}).items()}
    return requests


def _annotations(fields: PodFields) -> dict[str, str]:
    annotations = dict(fields.get("annotations", {}))
    if "map" in fields:
        annotations[well_known.MAP] = fields["map"]
    if "devices" in fields:
        annotations[well_known.DEVICES] = fields["devices"]
    if "index" in fields:
        annotations[well_known.POD_INDEX] = str(fields["index"])
    return annotations


def _owner(text: str) -> tuple[Json | None, dict[str, str]]:
    if not text:
        return None, {}
    kind, _, name = text.partition("/")
    labels: dict[str, str] = {}
    if kind == "Deployment":
        name, _, revision = name.partition("@")
        revision = revision or "r1"
        kind, name, labels = "ReplicaSet", f"{name}-{revision}", {"pod-template-hash": revision}
    word, (kind, _, group) = kind, kind.partition(".")
    version = f"{group or API_GROUPS.get(kind, '')}/v1".removeprefix("/")
    reference = {"apiVersion": version, "kind": kind, "name": name, "uid": f"{word}-{name}"}
    return {**reference, "controller": True}, labels


def _time(second: int) -> str:
    return f"2026-11-27T10:{second // 60:02}:{second % 60:02}Z"


def node(
    name: str = "n1",
    *,
    gpus: int | None = None,
    mig: Mapping[str, int] | None = None,
    with_gpu_indexes: bool = False,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[str] = (),
    cordoned: bool = False,
    cpu: str = "32",
    memory: str = "128Gi",
    pods: int | None = 110,
    offers: Mapping[str, str] | None = None,
    capacity: Mapping[str, str] | None = None,
    uid: str = "",
    annotations: Mapping[str, str] | None = None,
    images: Iterable[Json] = (),
) -> Node:
    """A node; a taint reads ``key=value:Effect``. No count means that it advertises no GPUs.

    ``offers`` and ``capacity`` are added to its allocatable and its capacity.
    """
    allocatable: dict[str, str] = {"cpu": cpu, "memory": memory, **(offers or {})}
    if pods is not None:
        allocatable["pods"] = str(pods)
    if gpus is not None:
        allocatable[GPU] = str(gpus)
    allocatable |= {well_known.mig_resource(p): str(count) for p, count in (mig or {}).items()}
    wire = {
        "metadata": {
            "name": name,
            "uid": uid or f"node-{name}",
            "labels": {
                **({well_known.NUMBERED: "numbered"} if with_gpu_indexes else {}),
                **(labels or {}),
            },
            "annotations": dict(annotations or {}),
        },
        "spec": {"unschedulable": cordoned, "taints": [_taint(text) for text in taints]},
        "status": {
            "allocatable": allocatable,
            "capacity": dict(capacity or {}),
            "images": list(images),
        },
    }
    return decode_nodes.to_node(decode_nodes.NODE.decode(msgspec.json.encode(wire)))


def dynamic(
    name: str = "n1",
    *,
    gpus: int = 1,
    product: str = "NVIDIA-A100-SXM4-80GB",
    labels: Mapping[str, str] | None = None,
    **others: Any,
) -> Node:
    """A dynamic MIG node; ``mig`` are the instances that it advertises."""
    event_target = {
        well_known.MIG_DYNAMIC: "true",
        well_known.GPU_PRODUCT: product,
        well_known.GPU_COUNT: str(gpus),
        **(labels or {}),
    }
    return node(name, labels=event_target, **others)


def _taint(text: str) -> Json:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def namespace(
    name: str = "team",
    *,
    maps: bool = False,
    ladder: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Namespace:
    """A namespace; ``maps`` lets it use maps, ``ladder`` is its annotation."""
    return Namespace(
        name=name,
        labels={**({well_known.MAPS_ALLOWED: "allowed"} if maps else {}), **(labels or {})},
        annotations={} if ladder is None else {well_known.MIG_FALLBACK: ladder},
    )


def cut(node_name: str, *mig_placements: str) -> NodePartitions:
    """The instances in a node's MigPartition status, as ``2g.20gb@0/4``."""
    devices = parse_devices("; ".join(mig_placements)) if mig_placements else Devices()
    assert devices is not None
    return NodePartitions(
        node_name,
        instances=tuple(MigInstance(mig_placement) for mig_placement in devices.mig_placements),
    )


def cluster(
    *objects: Seen | StorageObject | DraObject | ClaimPlan | TeamTable,
) -> Cluster:
    """A cluster state that has seen these objects in this order; any namespace may use maps."""
    state = Cluster(maps_allow=ALLOW_ALL_MAPS.maps_allow)
    for one in objects:
        match one:
            case Pod():
                state.upsert_pod(one)
            case Node():
                state.upsert_node(one)
            case Namespace():
                state.upsert_namespace(one)
            case NodePartitions():
                state.nodes.upsert_partitions(one)
            case GpusInBackoff():
                state.nodes.set_gpu_backoff(one.node_name, frozenset(one.gpus))
            case Avoided():
                state.avoid(one.node_name, frozenset(one.scopes))
            case ClaimPlan():  # of a placement of another pod
                state.dra.assume("assumed", one)
            case _ if isinstance(one, DraObject | TeamTable):
                fold(state, _event(one))
            case _:
                state.volumes.upsert(one)
    return state


def _event(one: DraObject | TeamTable) -> ev.Event:
    return ev.TeamsRead(one) if isinstance(one, TeamTable) else ev.DraUpdated(one)


def placed(view: View, newcomer: Pod, pipeline: Pipeline = ALLOW_ALL_MAPS) -> Placement:
    """The placement of a pod that must be placeable."""
    decision = schedule_one(view, newcomer, pipeline)
    assert isinstance(decision, Placement), sentence(decision.diagnosis)
    return decision


def refused(view: View, newcomer: Pod, pipeline: Pipeline = ALLOW_ALL_MAPS) -> Rejection:
    """The rejection of a pod that must not be placeable."""
    decision = schedule_one(view, newcomer, pipeline)
    assert isinstance(decision, Rejection), f"placed on {decision.node_name}"
    return decision


def codes(view: View, newcomer: Pod, pipeline: Pipeline = ALLOW_ALL_MAPS) -> set[ReasonCode]:
    """The codes with which a pod is rejected."""
    return set(refused(view, newcomer, pipeline).diagnosis.codes())


def settle(state: Cluster, newcomer: Pod, pipeline: Pipeline = ALLOW_ALL_MAPS) -> Placement:
    """Place a pod and enter it into the state, as the loop does before it sends the Binding."""
    state.upsert_pod(newcomer)
    placement = placed(state, newcomer, pipeline)
    given = placement.node_name, placement.devices, placement.index
    state.assume(newcomer, Assumption(*given, placement.volumes, placement.claims))
    return placement


def as_bound(placement: Placement) -> Pod:
    """The pod as the watch shows it once its Binding went through."""
    written = binding_annotations(placement, "d-1", 1)
    return msgspec.structs.replace(
        placement.pod,
        node_name=placement.node_name,
        annotations={**placement.pod.annotations, **written},
    )


def restoring(name: str, **more: Any) -> Migration:
    """The migration with which a pod of Deployment ``web`` gets 2g.20gb in place of 1g.10gb."""
    ticket = Migration(
        id=name,
        move=MigrationKind.RESTORE,
        namespace="team",
        owner=Owner("ReplicaSet", "web-r1", "ReplicaSet-web-r1"),
        event_target=Owner("Deployment", "web", "Deployment-web"),
        workload="team/Deployment/web",
        revision="r1",
        pod_name="web-x",
        pod_uid="u-p",
        source={"nvidia.com/mig-1g.10gb": 1},
        target={"nvidia.com/mig-2g.20gb": 1},
        node_name="cut",
        requests={},
    )
    return msgspec.structs.replace(ticket, **more)
