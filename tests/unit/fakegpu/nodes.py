"""Fake nodes for these tests, made as the controller makes them."""

from __future__ import annotations

from typing import Any

import msgspec

from fakegpu.api_types import MapFacts, NodeFacts
from fakegpu.controller.plan import plan
from fakegpu.controller.plan_types import Memory, Plan, Settings, View
from fakegpu.node.hardware import hardware
from fakegpu.node.pod_devices import Claimed, Need, PodUse
from fakegpu.topology.document import read_topology
from fakegpu.topology.node_topology import MigStrategy, NodeTopology, Sharing
from fakegpu.topology.pools import Topology
from fakegpu.topology.sharing import PluginConfig, read_plugin_config
from scheduler.model.crd.mig_partition import NodePartitions

GPU = "nvidia.com/gpu"
H200 = "gpuProduct: NVIDIA-H200, gpuMemory: 71680"
KWOK = {"kwok.x-k8s.io/node": "fake"}


def topology(pool: str) -> Topology:
    """A cluster topology with the pool ``p``."""
    found = read_topology(f"nodePools:\n  p: {{{pool}}}\n")
    assert found.problems == {}
    return found


def fake(
    pool: str,
    *,
    strategy: MigStrategy = "mixed",
    sharing: str = "",
    failures: Any = None,
    node: str = "n",
) -> NodeTopology:
    """The hardware of a node of such a pool; ``sharing`` is text of the plugin's file."""
    found = topology(pool).pools["p"]
    shared = read_plugin_config(sharing).sharing if sharing else Sharing()
    return hardware(
        node, found, found.layouts, strategy=strategy, sharing=shared, failures=failures or {}
    )


def slicing(replicas: int, resource: str = GPU, more: str = "") -> str:
    """The device plugin's file for time-slicing."""
    return (
        "version: v1\nsharing: {timeSlicing: {"
        f"{more}resources: [{{name: {resource}, replicas: {replicas}}}]}}}}\n"
    )


def use(name: str = "p", *, gpus: int = 1, resource: str = GPU, **more: Any) -> PodUse:
    """A running pod with one container."""
    needs = (Need("c", resource, gpus),) if gpus else ()
    told = {"namespace": "team", "needs": needs, **more}
    return PodUse(uid=f"uid-{name}", name=name, **told)


def holders(found: NodeTopology) -> list[str]:
    """The first holder of each GPU, or of each instance where it is cut; empty: no holder."""
    statuses = [
        one.status for gpu in found.gpus for one in (gpu.instances if gpu.has_mig else (gpu,))
    ]
    return [status.allocated_by.pod for status in statuses]


def facts(
    *, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> NodeFacts:
    """A KWOK node of the pool ``p``."""
    return NodeFacts(
        name="n",
        uid="node-uid",
        labels={"run.ai/simulated-gpu-node-pool": "p", **(labels or {})},
        annotations={**KWOK, **(annotations or {})},
    )


def planned(
    pool: str,
    node: NodeFacts | None = None,
    *,
    memory: Memory | None = None,
    pods: tuple[PodUse, ...] = (),
    record: MapFacts | None = None,
    plugin: PluginConfig | None = None,
    now: float = 0.0,
    wall: float = 0.0,
    mig_partitions: NodePartitions | None = None,
    draw: float = 0.5,
    settings: Settings | None = None,
    claimed: Claimed | None = None,
) -> Plan:
    """The plan of a node at a moment."""
    cluster = topology(pool)
    view = View(
        node=node or facts(),
        topology=cluster,
        pool=cluster.pools["p"],
        plugin=plugin,
        pods=pods,
        record=record,
        mig_partitions=mig_partitions,
        claimed=claimed or {},
        is_dynamic=mig_partitions is not None,
    )
    settings = settings or Settings(namespace="gpu-operator", map_prefix="topology-")
    return plan(view, memory or Memory(), settings, now=now, wall=wall, draw=draw)


def read_answer(answer: bytes) -> NodeTopology:
    """What a client reads in an answer of the topology server."""
    document = _camel(msgspec.json.decode(answer))
    always = {"driverVersion": "", "cudaVersion": "", "otherDevices": None}
    said = {key: one for key, one in document.items() if (key, one) not in always.items()}
    return msgspec.convert(said, NodeTopology)


def _camel(value: Any) -> Any:
    """Keys as in the YAML; uids of pods must not begin with a capital."""
    if isinstance(value, dict):
        return {_lower(key): _camel(inner) for key, inner in value.items()}
    return [_camel(inner) for inner in value] if isinstance(value, list) else value


def _lower(key: str) -> str:
    return "id" if key == "ID" else key[:1].lower() + key[1:]
