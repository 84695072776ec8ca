"""The words of planning: what is known of one node, and what comes out."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from fakegpu.api_types import MapFacts, NodeFacts
from fakegpu.node.admission import Refusal
from fakegpu.node.advertised_devices import Amounts
from fakegpu.node.mig.mig_manager import Applied
from fakegpu.node.pod_devices import Claimed, PodUse
from fakegpu.topology.node_topology import Dra, NodeTopology
from fakegpu.topology.pools import Pool, Topology
from fakegpu.topology.sharing import PluginConfig
from scheduler.model.crd.mig_partition import MigInstance, NodePartitions
from scheduler.model.gpu.device import MigPlacement

Json = dict[str, Any]
#: The reason of a pod that the kubelet does not admit.
NOT_ADMITTED: Final = "UnexpectedAdmissionError"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says about plans."""

    namespace: str
    map_prefix: str
    latency_s: float = 1.0
    failure_rate: float = 0.0
    labels: bool = True
    numbered: bool = True
    cuts: bool = False
    zones: bool = False
    dra_on_kubelets: Dra | None = None
    dra_on_kwok: Dra | None = None
    in_parts: bool = False


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One node and all that bears on it; ``record`` is its ConfigMap, ``cuts`` what the scheduler
    asks for where instances are cut to order, ``claimed`` what claims hold."""

    node: NodeFacts
    topology: Topology
    pool: Pool
    plugin: PluginConfig | None
    pods: tuple[PodUse, ...]
    record: MapFacts | None
    cuts: NodePartitions | None = None
    is_dynamic: bool = False
    claimed: Claimed = {}


class Memory(msgspec.Struct, frozen=True):
    """What is kept of a node from one look to the next."""

    topology: NodeTopology | None = None
    applied: Applied = Applied()
    fingerprint: str = ""
    ready_at: float | None = None
    begun: dict[tuple[MigPlacement, str], float] = {}


class Note(msgspec.Struct, frozen=True):
    """Something for the events of the node, or of a pod on it."""

    reason: str
    text: str
    is_warning: bool = True
    pod: PodUse | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """By which it is known again: what a pod does meanwhile makes it no news."""
        return self.reason, self.text, self.pod.uid if self.pod else ""


class Mark(msgspec.Struct, frozen=True):
    """A reservation pod that has to be told which device it holds."""

    namespace: str
    pod: str
    uid: str
    device: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The documents, and what else there is to do; ``amounts`` is None where a kubelet writes.

    ``cut_answer`` is what to answer the scheduler, where that is news. ``slices`` is what DRA shall
    publish, None where that is not ours to do. ``zones`` is the node's NodeResourceTopology, where
    one is wanted.
    """

    config_map: bytes
    labels: dict[str, str]
    annotations: dict[str, str]
    amounts: Amounts | None
    memory: Memory
    cut_answer: tuple[MigInstance, ...] | None = None
    notes: tuple[Note, ...] = ()
    marks: tuple[Mark, ...] = ()
    slices: tuple[Json, ...] | None = None
    refusals: tuple[Refusal, ...] = ()
    zones: bytes | None = None
