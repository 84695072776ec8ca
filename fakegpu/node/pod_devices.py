"""The devices of a pod on a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fakegpu.topology.node_topology import Utilization
from scheduler.model.gpu.device import Devices


class Need(msgspec.Struct, frozen=True):
    """A number of devices of a resource, for one container."""

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
    """A container's claim; with a ``request`` only its devices."""

    container: str
    claim: str
    request: str = ""

    def covers(self, one: Allotted) -> bool:
        """Whether a device of the claim is for this container."""
        return self.request in ("", one.request, one.request.partition("/")[0])


class Step(msgspec.Struct, frozen=True):
    """A duration with a range of utilization; per cent."""

    seconds: int
    low: int
    high: int

    @property
    def load(self) -> Utilization:
        """In the topology's form."""
        return Utilization(min=self.low, max=self.high)


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Steps in sequence, once or repeatedly."""

    steps: tuple[Step, ...]
    repeats: bool = False


class PodUse(msgspec.Struct, frozen=True, kw_only=True):
    """The devices and the utilization of a pod on the node.

    ``load`` is None if it depends on requests (Knative); ``group`` names the PodGroup
    (``namespace/name``) whose priority determines it, if the pod does not. A ``timeline`` has
    precedence over both, from the time when the pod ``started``. ``shares`` name reservation pods
    with which it shares a device; a ``reservation`` holds one for others, and ``marked`` is the
    device id in its annotation.
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
        """Its containers, each with a device of a claim."""
        for ref in self.claims:
            for one in claimed.get((self.namespace, ref.claim), ()):
                if ref.covers(one):
                    yield ref.container, one.device
