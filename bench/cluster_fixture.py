"""A cluster for benchmarks, and pending pods.

Every node has two labels of its own and a little less memory than nominal; the labels that pods
name make 60 classes; GPU and MIG nodes are mixed and half of their devices are allocated. 30 % of
the pods have a selector, an affinity or a toleration, and 10 % fit nowhere.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec

from scheduler.decide import best_fit
from scheduler.framework.decision import Placement
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.watch.decode import nodes, pods

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"
TYPES = ("a100", "h100", "h200", "l40s")
ZONES = tuple(f"zone-{letter}" for letter in "abcde")
POOLS = ("batch", "online", "research")
Json = dict[str, Any]


def node(number: int) -> Node:
    """A node as the watch delivers it."""
    return nodes.to_node(nodes.NODE.decode(msgspec.json.encode(node_body(number))))


def node_body(number: int) -> Json:
    """A node as clouds create them: no two nodes are equal."""
    kind = number % 60
    offers = {"cpu": "128", "memory": f"{1024 * 1024 - number * 37 % 4096}Mi", "pods": "110"}
    if number % 3 < 2:
        offers[GPU] = "8"
    else:
        offers |= {f"{MIG}1g.10gb": "16", f"{MIG}2g.20gb": "8", f"{MIG}3g.40gb": "4"}
    taints = (
        [{"key": "reserved", "value": "ml", "effect": "NoSchedule"}] if number % 10 == 9 else []
    )
    labels = {
        "kubernetes.io/hostname": f"node-{number:05}",
        "example.com/instance": f"i-{number:08x}",
        "gpu-type": TYPES[kind % 4],
        "zone": ZONES[kind // 4 % 5],
        "pool": POOLS[kind // 20],
    }
    return {
        "metadata": {"name": f"node-{number:05}", "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": offers},
    }


def requests(rng: random.Random) -> dict[str, str]:
    """The requests of an ordinary pod."""
    wanted = {"cpu": str(rng.choice((2, 4, 8))), "memory": f"{rng.choice((8, 16, 32))}Gi"}
    if rng.random() < 0.6:
        return wanted | {GPU: str(rng.choice((1, 1, 1, 2, 4)))}
    return wanted | {f"{MIG}{rng.choice(('1g.10gb', '2g.20gb', '3g.40gb'))}": "1"}


def misfit(rng: random.Random) -> Json:
    """A spec that fits on no node: too large, or with a missing label."""
    wanted: dict[str, str] = requests(rng)
    selector: dict[str, str] = {}
    match rng.randrange(4):
        case 0:
            wanted = {"cpu": "4", "memory": "16Gi", GPU: "16"}
        case 1:
            wanted = {"cpu": "4", "memory": "16Gi", f"{MIG}7g.80gb": "1"}
        case 2:
            wanted = {"cpu": "4", "memory": "2Ti", GPU: "1"}
        case 3:
            selector = {"gpu-type": "b300"}
    return {
        "containers": [{"name": "c", "resources": {"limits": wanted}}],
        "nodeSelector": selector,
    }


def fussy(rng: random.Random) -> Json:
    """A selector, a required and a preferred affinity, or a toleration."""
    types = [{"key": "gpu-type", "operator": "In", "values": sorted(rng.sample(TYPES, 2))}]
    zone = [{"key": "zone", "operator": "In", "values": [rng.choice(ZONES)]}]
    match rng.randrange(3):
        case 0:
            return {"nodeSelector": {"pool": rng.choice(POOLS), "gpu-type": rng.choice(TYPES)}}
        case 1:
            required = {"nodeSelectorTerms": [{"matchExpressions": types}]}
            preferred = [{"weight": 10, "preference": {"matchExpressions": zone}}]
            both = {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            }
            return {"affinity": {"nodeAffinity": both}}
    return {"tolerations": [{"key": "reserved", "operator": "Exists"}]}


def ordinary(rng: random.Random) -> Json:
    """A spec that fits somewhere."""
    return {"containers": [{"name": "c", "resources": {"limits": requests(rng)}}]}


def pod(number: int, spec: Json) -> Pod:
    """A pod as the watch delivers it."""
    return pods.to_pod(pods.POD.decode(msgspec.json.encode(pod_body(number, spec))))


def pod_body(number: int, spec: Json) -> Json:
    """A pending pod."""
    return {
        "metadata": {
            "name": f"p-{number}",
            "namespace": f"team-{number % 20}",
            "uid": f"u-{number}",
            "labels": {"app": f"a-{number % 50}"},
        },
        "spec": {"schedulerName": "gpu-scheduler", **spec},
    }


def anti_affine(rng: random.Random) -> Json:
    """One pod per host, required: not implemented yet, so rejected as unsupported."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return ordinary(rng) | {"affinity": {"podAntiAffinity": rule}}


def mixed(rng: random.Random, number: int) -> Pod:
    """One in ten fits nowhere, three in ten have constraints."""
    draw = rng.random()
    if draw < 0.1:
        return pod(number, misfit(rng))
    return pod(number, ordinary(rng) | (fussy(rng) if draw < 0.4 else {}))


class ClusterFixture:
    """A cluster that stays half full while decisions are made on it."""

    def __init__(self, nodes: int, rng: random.Random) -> None:
        self.cluster = Cluster()
        self.rng = rng
        self.number = 0
        self._placed: dict[str, deque[Pod]] = {}
        self._taken: Counter[str] = Counter()
        for number in range(nodes):
            self.cluster.upsert_node(node(number))
        self._half = {resource: total // 2 for resource, total in self._offered().items()}
        self._fill()

    def _offered(self) -> Counter[str]:
        offered: Counter[str] = Counter()
        for node_info in self.cluster.candidates():
            assert node_info.node is not None
            offered.update({r: node_info.node.allocatable[r] for r in node_info.node.devices})
        return offered

    def _fill(self) -> None:
        """Place pods on random nodes."""
        places = [node_info.node for node_info in self.cluster.candidates() if node_info.node]
        while any(self._taken[resource] < half for resource, half in self._half.items()):
            newcomer = self.next(lambda rng, number: pod(number, ordinary(rng)))
            chosen = self.rng.choice(places)
            node_info = self.cluster.nodes.node_info[chosen.name]
            [(resource, count)] = newcomer.gpu_requests.items()
            if self._taken[resource] < self._half[resource] and node_info.free(resource) >= count:
                given = best_fit.devices(newcomer, node_info)
                self._enter(newcomer, Assumption(chosen.name, given))

    def next(self, make: Callable[[random.Random, int], Pod] = mixed) -> Pod:
        """The next pod, without cached properties."""
        self.number += 1
        return make(self.rng, self.number)

    def enter(self, placement: Placement) -> None:
        """Add a placement and delete other pods, so that the usage stays the same."""
        given = Assumption(placement.node_name, placement.devices, placement.index)
        resource = self._enter(placement.pod, given)
        others = self._placed[resource]
        while self._taken[resource] > self._half[resource]:
            others.rotate(-self.rng.randrange(len(others)))
            leaver = others.popleft()
            self._taken[resource] -= leaver.gpu_requests[resource]
            self.cluster.delete_pod(leaver.uid)

    def _enter(self, newcomer: Pod, given: Assumption) -> str:
        self.cluster.upsert_pod(newcomer)
        self.cluster.assume(newcomer, given)
        [(resource, count)] = newcomer.gpu_requests.items()
        self._placed.setdefault(resource, deque()).append(newcomer)
        self._taken[resource] += count
        return resource
