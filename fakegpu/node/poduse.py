"""A pod on a node, as far as devices are concerned."""

from __future__ import annotations

import msgspec

from fakegpu.topology.nodetopology import Utilization
from scheduler.model.device import Devices


class Need(msgspec.Struct, frozen=True):
    """So many of a resource, for one container."""

    container: str
    resource: str
    count: int


class PodUse(msgspec.Struct, frozen=True, kw_only=True):
    """A pod on the node, as far as devices are concerned.

    ``load`` is None where requests have to be asked for (Knative). ``shares`` name reservation
    pods with which it shares a device; a ``reservation`` holds one for others, and ``marked`` is
    the device's id that it already carries.
    """

    uid: str
    namespace: str
    name: str
    created: str = ""
    is_running: bool = True
    needs: tuple[Need, ...] = ()
    chosen: Devices = Devices()
    load: Utilization | None = Utilization(min=100, max=100)
    fraction: float = 1.0
    shares: tuple[str, ...] = ()
    reservation: tuple[str, ...] = ()
    marked: str = ""
