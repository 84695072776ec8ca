"""What a ResourceClaim was given: ``status.allocation`` (``resource.k8s.io/v1``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model.dra.device import DeviceId, DeviceToleration
from scheduler.model.dra.device_class import OpaqueConfig
from scheduler.model.selector import Term, matches_any

FROM_CLASS: Final = "FromClass"
FROM_CLAIM: Final = "FromClaim"
#: The devices that one claim can have (``AllocationResultsMaxSize``).
RESULTS_MAX: Final = 32


class DeviceResult(msgspec.Struct, frozen=True, kw_only=True):
    """One device of an allocation.

    ``request`` is ``request``, or ``request/subrequest``. A device that allows multiple
    allocations ``is_shared``: the writer gives it a ``share_id``, a new uid, which is empty until
    then; ``consumed`` is what this share takes of each capacity, in nano units.
    """

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    is_shared: bool = False
    share_id: str = ""
    consumed: dict[str, int] = {}
    skip_node_operations: tuple[str, ...] = ()

    @property
    def id(self) -> DeviceId:
        """The device."""
        return DeviceId(self.driver, self.pool, self.device)


class AllocatedConfig(msgspec.Struct, frozen=True):
    """Configuration for the driver, of the class (FROM_CLASS) or of the claim (FROM_CLAIM).

    It is for these requests; for all where there are none.
    """

    source: str
    config: OpaqueConfig
    requests: tuple[str, ...] = ()


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a claim, their configuration, and the nodes that can use them.

    ``terms`` is a node selector; None where every node can. ``timestamp`` is the API's text; the
    writer sets it, because kube-scheduler cannot reserve a claim without it for another pod.
    """

    results: tuple[DeviceResult, ...] = ()
    config: tuple[AllocatedConfig, ...] = ()
    terms: tuple[Term, ...] | None = None
    timestamp: str = ""

    def admits(self, node_name: str, labels: Mapping[str, str]) -> bool:
        """Whether a node can use the devices."""
        return self.terms is None or matches_any(self.terms, labels, node_name)

    @property
    def has_conditions(self) -> bool:
        """Whether the Binding of a pod waits for conditions of a device."""
        return any(one.binding_conditions for one in self.results)
