"""A pod on a node, as far as devices are concerned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fakegpu.topology.node_topology import Utilization
from scheduler.model.gpu.device import Devices


class Need(msgspec.Struct, frozen=True):
    """So many of a resource, for one container."""

    container: str
    resource: str
    count: int


#: A claim by namespace and name.
ClaimKey = tuple[str, str]


class Allotted(msgspec.Struct, frozen=True):
    """A device that a claim holds for one of its requests (``name``, or ``name/alternative``)."""

    request: str
    device: str


Claimed = Mapping[ClaimKey, tuple[Allotted, ...]]


class ClaimRef(msgspec.Struct, frozen=True):
    """A container's claim; with a ``request`` it gets the devices of that one only."""

    container: str
    claim: str
    request: str = ""

    def covers(self, one: Allotted) -> bool:
        """Whether a device of the claim is for this container."""
        return self.request in ("", one.request, one.request.partition("/")[0])


class Step(msgspec.Struct, frozen=True):
    """So long so busy; per cent."""

    seconds: int
    low: int
    high: int

    @property
    def load(self) -> Utilization:
        """As the topology tells it."""
        return Utilization(min=self.low, max=self.high)


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """One step after the other, once or again and again."""

    steps: tuple[Step, ...]
    repeats: bool = False


class PodUse(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on the node, as far as devices are concerned.

    ``load`` is None where requests have to be asked for (Knative); ``group`` names the PodGroup
    (``namespace/name``) whose priority says it, where the pod does not; a ``timeline`` goes before
    both, from the moment at which the pod ``started``. ``shares`` name reservation pods with which
    it shares a device; a ``reservation`` holds one for others, and ``marked`` is the device's id
    that it already carries.
    """

    uid: str
    namespace: str
    name: str
    created: str = ""
    is_running: bool = True
    needs: tuple[Need, ...] = ()
    claims: tuple[ClaimRef, ...] = ()
    chosen: Devices = Devices()
    load: Utilization | None = Utilization(min=100, max=100)
    group: str = ""
    timeline: Timeline | None = None
    started: float | None = None
    fraction: float = 1.0
    shares: tuple[str, ...] = ()
    reservation: tuple[str, ...] = ()
    marked: str = ""

    def held(self, claimed: Claimed) -> Iterator[tuple[str, str]]:
        """Its containers, each with a device that it holds by a claim."""
        for ref in self.claims:
            for one in claimed.get((self.namespace, ref.claim), ()):
                if ref.covers(one):
                    yield ref.container, one.device
