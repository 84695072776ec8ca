"""Updates from the watches, one type per kind."""

from __future__ import annotations

import msgspec

from fakegpu.api_types import MapFacts, News, NodeFacts
from fakegpu.dra.api_types import ClaimFacts, SliceFacts
from fakegpu.pod_decode import PodFacts
from scheduler.model.crd.mig_partition import NodePartitions


class NodeEvents(msgspec.Struct, frozen=True):
    """Updates of nodes."""

    news: News[NodeFacts]


class PodEvents(msgspec.Struct, frozen=True):
    """Updates of pods."""

    news: News[PodFacts]


class PodGroupEvents(msgspec.Struct, frozen=True):
    """Updates of PodGroups (Run:ai), ``namespace/name``: the names of their priority classes."""

    news: News[str]


class ConfigMapEvents(msgspec.Struct, frozen=True):
    """Updates of the ConfigMaps beside the topology."""

    news: News[MapFacts]


class PluginConfigEvents(msgspec.Struct, frozen=True):
    """Updates of the device plugin's configuration."""

    news: News[MapFacts]


class PartitionEvents(msgspec.Struct, frozen=True):
    """Updates of the scheduler's requests for MIG instances."""

    news: News[NodePartitions]


class ResourceSliceEvents(msgspec.Struct, frozen=True):
    """Updates of ResourceSlices."""

    news: News[SliceFacts]


class ResourceClaimEvents(msgspec.Struct, frozen=True):
    """Updates of allocated claims."""

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
