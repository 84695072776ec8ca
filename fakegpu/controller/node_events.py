"""What the watches tell the world: news of one kind each."""

from __future__ import annotations

import msgspec

from fakegpu.api_types import MapFacts, News, NodeFacts
from fakegpu.dra.api_types import ClaimFacts, SliceFacts
from fakegpu.pod_decode import PodFacts
from scheduler.model.crd.mig_partition import NodePartitions


class NodeEvents(msgspec.Struct, frozen=True):
    """News of nodes."""

    news: News[NodeFacts]


class PodEvents(msgspec.Struct, frozen=True):
    """News of pods."""

    news: News[PodFacts]


class PodGroupEvents(msgspec.Struct, frozen=True):
    """News of PodGroups (Run:ai), ``namespace/name``: the names of their priority classes."""

    news: News[str]


class ConfigMapEvents(msgspec.Struct, frozen=True):
    """News of the ConfigMaps beside the topology."""

    news: News[MapFacts]


class PluginConfigEvents(msgspec.Struct, frozen=True):
    """News of the device plugin's configuration."""

    news: News[MapFacts]


class PartitionEvents(msgspec.Struct, frozen=True):
    """News of the instances that the scheduler asks for."""

    news: News[NodePartitions]


class ResourceSliceEvents(msgspec.Struct, frozen=True):
    """News of what DRA publishes."""

    news: News[SliceFacts]


class ResourceClaimEvents(msgspec.Struct, frozen=True):
    """News of allocated claims."""

    news: News[ClaimFacts]


Event = (
    NodeEvents
    | PodEvents
    | PodGroupEvents
    | ConfigMapEvents
    | PluginConfigEvents
    | PartitionEvents
    | ResourceSliceEvents
    | ResourceClaimEvents
)
