"""The shapes of scheduler_perf, kube-scheduler's own benchmark, as objects of the API. Pure.

The names, requests and constraints are those of ``test/integration/scheduler_perf`` of Kubernetes
1.37. Differences: every node has the label ``kubernetes.io/hostname``, as a kubelet's node; init
pods are created with a node; the waiting pods of ``unschedulable`` exist before the measured ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.load import Request

Json = dict[str, Any]

#: Namespaces of the init pods, the measured pods and all other pods; the terms of affinities name
#: the first two.
INIT, MEASURED, OTHERS = "sched-0", "sched-1", "sched-2"
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
DRIVER = "ebs.csi.aws.com"
#: The Priority admission plugin accepts a priority only with its class.
HIGH, PREEMPTOR = "bench-high", "bench-preemptor"
CLASSES = {HIGH: 10, PREEMPTOR: 9_999_999}
#: CPUs of a node.
CPUS = 4
QUANTITY = "SchedulingThroughput Average, pods/s"


@dataclass(frozen=True)
class Sizes:
    """``pods`` is the number of measured pods of a shape without another limit."""

    nodes: int
    pods: int


@dataclass(frozen=True)
class Shape:
    """One test of scheduler_perf.

    ``waiting`` pods are created before the measured ones and never placed. ``during`` are requests
    at a fixed rate while the pods are placed; its argument is a number that no other round has.
    """

    name: str
    upstream: str
    measured: Callable[[Sizes], int]
    measured_spec: Json
    measures: str = QUANTITY
    labels: dict[str, str] | None = None
    zones: tuple[str, ...] = ()
    init: Callable[[Sizes], int] = lambda sizes: 0
    init_spec: Json | None = None
    init_labels: dict[str, str] | None = None
    waiting: Callable[[Sizes], int] = lambda sizes: 0
    waiting_spec: Json | None = None
    during: Callable[[Sizes, str, int], Iterator[Request]] | None = None
    during_rate: float = 0.0
    #: No node may hold more of the measured pods.
    most_per_node: int = CPUS * 10
    has_claims: bool = False
    preempts: bool = False
    goal: float = 2.0


def container(cpu: str = "", memory: str = "500Mi", *, limits: bool = True) -> Json:
    """A container with equal requests and limits, or without both."""
    amounts = {"cpu": cpu, "memory": memory} if cpu else {}
    resources = {"requests": amounts, "limits": amounts if limits else {}} if amounts else {}
    return {
        "name": "pause",
        "image": "registry.k8s.io/pause:3.10.2",
        "ports": [{"containerPort": 80}],
        "resources": resources,
    }


def spec(cpu: str = "100m", *, limits: bool = True, **fields: Any) -> Json:
    """The spec of a pod with one container."""
    return {
        "automountServiceAccountToken": False,
        "containers": [container(cpu, limits=limits)],
        **fields,
    }


def _term(topology_key: str, color: str) -> Json:
    return {
        "labelSelector": {"matchLabels": {"color": color}},
        "topologyKey": topology_key,
        "namespaces": [MEASURED, INIT],
    }


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_ZONES = [{"key": ZONE, "operator": "In", "values": ["zone1", "zone2"]}]
_NODE_AFFINITY = {
    "nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": _ZONES}]}}
}
_SPREAD = [
    {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
]
#: A pod that fits on no node: it requests more CPUs than any node has.
_LARGE = spec("9", limits=False, priorityClassName=HIGH)


def pod(name: str, namespace: str, scheduler: str, body: Json, labels: Any = None) -> Request:
    """The creation of a pod."""
    metadata = {"name": name, "labels": labels or {}}
    path = f"/api/v1/namespaces/{namespace}/pods"
    return Request(
        "POST", path, {"metadata": metadata, "spec": {"schedulerName": scheduler, **body}}
    )


def node_name(number: int) -> str:
    """A node's name."""
    return f"node-{number:05}"


def nodes(shape: Shape, sizes: Sizes) -> Iterator[Request]:
    """The nodes of a shape, and their CSINodes if its pods have volumes."""
    for number in range(sizes.nodes):
        name = node_name(number)
        labels = {HOSTNAME: name}
        if shape.zones:
            labels[ZONE] = shape.zones[number % len(shape.zones)]
        amounts = {"cpu": str(CPUS), "memory": "32Gi", "pods": "110"}
        status = {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        body = {"metadata": {"name": name, "labels": labels}, "status": status}
        yield Request("POST", "/api/v1/nodes", body)
        if shape.has_claims:
            driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": 39}}
            csi_node = {"metadata": {"name": name}, "spec": {"drivers": [driver]}}
            yield Request("POST", "/apis/storage.k8s.io/v1/csinodes", csi_node)


def init_pods(shape: Shape, sizes: Sizes, scheduler: str) -> Iterator[Request]:
    """The init pods, each one with a node."""
    for number in range(shape.init(sizes)):
        body = {**(shape.init_spec or spec()), "nodeName": node_name(number % sizes.nodes)}
        body |= _claim_volume(number) if shape.has_claims else {}
        yield pod(pod_name(number), INIT, scheduler, body, shape.init_labels)


def waiting_pods(shape: Shape, sizes: Sizes, scheduler: str) -> Iterator[Request]:
    """The pods that are never placed."""
    for number in range(shape.waiting(sizes)):
        yield pod(f"waiting-{number:05}", OTHERS, scheduler, shape.waiting_spec or _LARGE)


def measured_pods(shape: Shape, sizes: Sizes, scheduler: str) -> Iterator[Request]:
    """The measured pods."""
    for number in range(shape.measured(sizes)):
        body = shape.measured_spec | (_claim_volume(number) if shape.has_claims else {})
        yield pod(pod_name(number), MEASURED, scheduler, body, shape.labels)


def pod_name(number: int) -> str:
    """The name of an init pod or a measured pod, and of its claim."""
    return f"p-{number:05}"


def _claim_volume(number: int) -> Json:
    claim = {"claimName": pod_name(number), "readOnly": True}
    return {"volumes": [{"name": "data", "persistentVolumeClaim": claim}]}


def claims(shape: Shape, sizes: Sizes) -> Iterator[Request]:
    """A bound CSI volume and its claim for each pod; no controller completes the binding."""
    if not shape.has_claims:
        return
    for namespace, count in ((INIT, shape.init(sizes)), (MEASURED, shape.measured(sizes))):
        for number in range(count):
            yield from _bound_claim(namespace, pod_name(number))


def _bound_claim(namespace: str, name: str) -> Iterator[Request]:
    volume = f"pv-{namespace}-{name}"
    size = {"storage": "1Gi"}
    pv = {
        "accessModes": ["ReadOnlyMany"],
        "capacity": size,
        "csi": {"driver": DRIVER, "volumeHandle": volume},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": namespace, "name": name},
    }
    yield Request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": volume}, "spec": pv})
    annotations = {"pv.kubernetes.io/bind-completed": "true"}
    claim = {
        "accessModes": ["ReadOnlyMany"],
        "resources": {"requests": size},
        "volumeName": volume,
        "storageClassName": "",
    }
    yield Request(
        "POST",
        f"/api/v1/namespaces/{namespace}/persistentvolumeclaims",
        {"metadata": {"name": name, "annotations": annotations}, "spec": claim},
    )


def _churn(sizes: Sizes, scheduler: str, tag: int) -> Iterator[Request]:
    """A node without room for pods, a pod that fits nowhere and a Service: created, deleted, and
    so on.
    """
    pods, services = (f"/api/v1/namespaces/{OTHERS}/{kind}" for kind in ("pods", "services"))
    for number in range(1000):
        name = f"churn-{tag}-{number:04}"
        node = {"metadata": {"name": name}, "status": {"capacity": {"pods": "0"}}}
        service = {"selector": {"app": "foo"}, "ports": [{"port": 8080, "protocol": "TCP"}]}
        yield Request("POST", "/api/v1/nodes", node)
        yield pod(name, OTHERS, scheduler, _LARGE)
        yield Request("POST", services, {"metadata": {"name": name}, "spec": service})
        yield Request("DELETE", f"/api/v1/nodes/{name}")
        yield Request("DELETE", f"{pods}/{name}?gracePeriodSeconds=0")
        yield Request("DELETE", f"{services}/{name}")


def _unschedulable(sizes: Sizes, scheduler: str, tag: int) -> Iterator[Request]:
    """More pods that fit on no node."""
    for number in range(5000):
        yield pod(f"churn-{tag}-{number:04}", OTHERS, scheduler, _LARGE)


def _deletions(sizes: Sizes, scheduler: str, tag: int) -> Iterator[Request]:
    """The deletion of the init pods."""
    for number in range(SHAPES["gated"].init(sizes)):
        path = f"/api/v1/namespaces/{INIT}/pods/{pod_name(number)}"
        yield Request("DELETE", f"{path}?gracePeriodSeconds=0")


def _pods(sizes: Sizes) -> int:
    return sizes.pods


def _half(sizes: Sizes) -> int:
    return sizes.pods // 2


def _fifth_of_nodes(sizes: Sizes) -> int:
    return sizes.nodes // 5


_ALL = (
    Shape("basic", "SchedulingBasic", _pods, spec(), init=_half),
    Shape(
        "node_affinity",
        "SchedulingNodeAffinity",
        _pods,
        spec(affinity=_NODE_AFFINITY),
        zones=("zone1",),
        init=_half,
        init_spec=spec(affinity=_NODE_AFFINITY),
    ),
    Shape(
        "pod_affinity",
        "SchedulingPodAffinity",
        _pods,
        spec(affinity={"podAffinity": {_REQUIRED: [_term(ZONE, "blue")]}}),
        labels={"color": "blue"},
        zones=("zone1",),
        init=_half,
        init_spec=spec(affinity={"podAffinity": {_REQUIRED: [_term(ZONE, "blue")]}}),
        init_labels={"color": "blue"},
    ),
    Shape(
        "pod_anti_affinity",
        "SchedulingPodAntiAffinity",
        lambda sizes: min(sizes.pods, sizes.nodes - _fifth_of_nodes(sizes)),
        spec(affinity={"podAntiAffinity": {_REQUIRED: [_term(HOSTNAME, "green")]}}),
        labels={"color": "green"},
        init=_fifth_of_nodes,
        init_spec=spec(affinity={"podAntiAffinity": {_REQUIRED: [_term(HOSTNAME, "green")]}}),
        init_labels={"color": "green"},
        most_per_node=1,
    ),
    Shape(
        "spread",
        "TopologySpreading",
        _pods,
        spec(topologySpreadConstraints=_SPREAD),
        labels={"color": "blue"},
        zones=("moon-1", "moon-2", "moon-3"),
        init=_pods,
    ),
    Shape("csi_volumes", "SchedulingCSIPVs", _pods, spec(), init=_half, has_claims=True),
    Shape(
        "mixed_churn",
        "SchedulingWithMixedChurn",
        _pods,
        spec(),
        during=_churn,
        during_rate=3.0,
    ),
    Shape(
        "unschedulable",
        "Unschedulable",
        _pods,
        spec(),
        measures=f"{QUANTITY}, of the schedulable pods",
        init=lambda sizes: sizes.nodes // 50,
        waiting=_half,
        waiting_spec=_LARGE,
        during=_unschedulable,
        during_rate=5.0,
    ),
    Shape(
        "gated",
        "SchedulingWhileGated",
        _pods,
        spec("", terminationGracePeriodSeconds=0),
        init=_pods,
        init_spec=spec("", terminationGracePeriodSeconds=0),
        waiting=lambda sizes: 5 * sizes.pods,
        waiting_spec=spec("", schedulingGates=[{"name": "test.k8s.io/hold"}]),
        during=_deletions,
        during_rate=50.0,
        most_per_node=110,
    ),
    Shape(
        "preemption",
        "PreemptionBasic",
        lambda sizes: min(sizes.pods, sizes.nodes),
        spec("3970m", priorityClassName=PREEMPTOR, terminationGracePeriodSeconds=0),
        measures=f"{QUANTITY}, of the preemptors",
        init=lambda sizes: 4 * sizes.nodes,
        init_spec=spec("900m", terminationGracePeriodSeconds=0),
        most_per_node=1,
        preempts=True,
        goal=1.0,
    ),
)
#: By name, in the order of the runs.
SHAPES: dict[str, Shape] = {shape.name: shape for shape in _ALL}


def chosen(words: str) -> tuple[Shape, ...]:
    """The shapes of a comma-separated list; all of them for an empty one. ValueError names the
    unknown one.
    """
    names = [word.strip() for word in words.split(",") if word.strip()] or list(SHAPES)
    unknown = [name for name in names if name not in SHAPES]
    if unknown:
        raise ValueError(f"no shape {', '.join(unknown)}; there are {', '.join(SHAPES)}")
    return tuple(SHAPES[name] for name in names)


def throughput(begun: float, bound: Iterable[float]) -> float:
    """Pods per second from the first write of the scheduler to the last Binding.

    scheduler_perf averages samples of one second, which are too few in runs of seconds. The first
    write is the first Binding, or, for preemptors, the first deletion or nomination; so the pods
    of the first instant are none of the counted ones.
    """
    times = sorted(bound)
    if len(times) < 2 or times[-1] <= begun:
        raise ValueError(f"{len(times)} Bindings are too few for a throughput")
    return sum(1 for moment in times if moment > begun) / (times[-1] - begun)
