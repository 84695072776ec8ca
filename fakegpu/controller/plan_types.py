"""The types of planning: the observed state of one node, and the results."""

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
    """The part of the configuration that plans read."""

    namespace: str
    map_prefix: str
    latency_s: float = 1.0
    failure_rate: float = 0.0
    labels: bool = True
    numbered: bool = True
    mig_partitions: bool = False
    zones: bool = False
    dra_on_kubelets: Dra | None = None
    dra_on_kwok: Dra | None = None
    in_parts: bool = False


class View(msgspec.Struct, frozen=True, kw_only=True):
    """One node and all objects about it; ``record`` is its ConfigMap, ``mig_partitions`` are the
    scheduler's requests on a dynamic MIG node, ``claimed`` are the devices of claims.
    """

    node: NodeFacts
    topology: Topology
    pool: Pool
    plugin: PluginConfig | None
    pods: tuple[PodUse, ...]
    record: MapFacts | None
    mig_partitions: NodePartitions | None = None
    is_dynamic: bool = False
    claimed: Claimed = {}


class Memory(msgspec.Struct, frozen=True):
    """The state of a node between two reconciliations."""

    topology: NodeTopology | None = None
    applied: Applied = Applied()
    fingerprint: str = ""
    ready_at: float | None = None
    begun: dict[tuple[MigPlacement, str], float] = {}


class Note(msgspec.Struct, frozen=True):
    """An event of the node, or of a pod on it."""

    reason: str
    text: str
    is_warning: bool = True
    pod: PodUse | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of the event: later changes of a pod do not make it new."""
        return self.reason, self.text, self.pod.uid if self.pod else ""


class Mark(msgspec.Struct, frozen=True):
    """The device id for a reservation pod."""

    namespace: str
    pod: str
    uid: str
    device: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The documents, and other writes; ``amounts`` is None if a kubelet writes the status.

    ``partition_status`` is the new MigPartition status, if it changed. ``slices`` are the
    ResourceSlices to publish, None if the operator does not publish them. ``zones`` is the node's
    NodeResourceTopology, if configured.
    """

    config_map: bytes
    labels: dict[str, str]
    annotations: dict[str, str]
    amounts: Amounts | None
    memory: Memory
    partition_status: tuple[MigInstance, ...] | None = None
    notes: tuple[Note, ...] = ()
    marks: tuple[Mark, ...] = ()
    slices: tuple[Json, ...] | None = None
    refusals: tuple[Refusal, ...] = ()
    zones: bytes | None = None
