"""What the watches tell the world: news of one kind each."""

from __future__ import annotations

import msgspec

from fakegpu.dra.wire import ClaimFacts, SliceFacts
from fakegpu.podwire import PodFacts
from fakegpu.wire import MapFacts, News, NodeFacts
from scheduler.model.cut import NodeCuts


class OfNodes(msgspec.Struct, frozen=True):
    """News of nodes."""

    news: News[NodeFacts]


class OfPods(msgspec.Struct, frozen=True):
    """News of pods."""

    news: News[PodFacts]


class OfGroups(msgspec.Struct, frozen=True):
    """News of PodGroups (Run:ai), ``namespace/name``: the names of their priority classes."""

    news: News[str]


class OfMaps(msgspec.Struct, frozen=True):
    """News of the ConfigMaps beside the topology."""

    news: News[MapFacts]


class OfPlugin(msgspec.Struct, frozen=True):
    """News of the device plugin's configuration."""

    news: News[MapFacts]


class OfCuts(msgspec.Struct, frozen=True):
    """News of the instances that the scheduler asks for."""

    news: News[NodeCuts]


class OfSlices(msgspec.Struct, frozen=True):
    """News of what DRA publishes."""

    news: News[SliceFacts]


class OfClaims(msgspec.Struct, frozen=True):
    """News of who holds what by a claim."""

    news: News[ClaimFacts]


Event = OfNodes | OfPods | OfGroups | OfMaps | OfPlugin | OfCuts | OfSlices | OfClaims
