"""ResourceClaims, as far as decisions read them (``resource.k8s.io/v1``)."""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.device import DeviceId, DeviceToleration
from scheduler.model.dra.device_class import OpaqueConfig
from scheduler.model.well_known import CLAIM_FINALIZER

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"
#: The pods that can use one claim (``ResourceClaimReservedForMaxSize``).
RESERVED_FOR_MAX: Final = 256


class ExactRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Devices of one class: ``exactly`` of a request, or a subrequest of ``firstAvailable``.

    ``selectors`` are CEL expressions, all of which must hold. ``capacity`` is what is requested of
    capacities, in nano units. ``name`` is that of the request, or of the subrequest. A request that
    ``is_derived`` has derived attributes (feature DRADerivedAttributes), which are not evaluated:
    nothing is allocated for it.
    """

    name: str
    class_name: str
    selectors: tuple[str, ...] = ()
    mode: str = EXACT_COUNT
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: dict[str, int] = {}
    is_derived: bool = False


class DeviceRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a claim: ``exactly``, or the first of ``first_available`` that can be had."""

    name: str
    exactly: ExactRequest | None = None
    first_available: tuple[ExactRequest, ...] = ()

    @property
    def alternatives(self) -> tuple[ExactRequest, ...]:
        """The requests of which one is to be met, in the order of preference."""
        return self.first_available if self.exactly is None else (self.exactly,)

    def name_of(self, chosen: ExactRequest) -> str:
        """How allocations name an alternative: ``request``, or ``request/subrequest``."""
        return self.name if self.exactly is not None else f"{self.name}/{chosen.name}"


class Constraint(msgspec.Struct, frozen=True, gc=False):
    """A constraint on the devices of the named requests; of all where none is named.

    With ``match`` the attribute of that fully qualified name is equal, with ``distinct`` it differs
    between all devices. One of the two is set.
    """

    requests: tuple[str, ...] = ()
    match: str = ""
    distinct: str = ""


class ClaimConfig(msgspec.Struct, frozen=True, gc=False):
    """Configuration of the devices of the named requests; of all where none is named."""

    config: OpaqueConfig
    requests: tuple[str, ...] = ()


class ClaimConsumer(msgspec.Struct, frozen=True, gc=False):
    """One entry of ``status.reservedFor``."""

    uid: str
    name: str = ""
    resource: str = "pods"
    api_group: str = ""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod."""
        return self.resource == "pods" and not self.api_group


class DeviceStatus(msgspec.Struct, frozen=True):
    """What a driver says about an allocated device: the status of each condition by its type."""

    device: DeviceId
    share_id: str = ""
    conditions: dict[str, str] = {}


class ResourceClaim(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One ResourceClaim.

    ``owner_uid`` is that of the pod that is its controller and for which it was created; empty
    where no pod is its controller. It was created from a template, or ``is_extended``: by a
    scheduler for the extended resources of the pod. ``allocation`` is None until it is allocated.
    ``unread`` says what of it cannot be read: then it is not allocated.
    """

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    owner_uid: str = ""
    is_extended: bool = False
    is_deleting: bool = False
    finalizers: tuple[str, ...] = ()
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[ClaimConfig, ...] = ()
    allocation: Allocation | None = None
    reserved_for: tuple[ClaimConsumer, ...] = ()
    devices: tuple[DeviceStatus, ...] = ()
    unread: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_finalizer(self) -> bool:
        """Whether it is protected, as it must be before it is allocated."""
        return CLAIM_FINALIZER in self.finalizers

    def is_reserved_for(self, uid: str) -> bool:
        """Whether the pod with this uid may use it."""
        return any(one.uid == uid for one in self.reserved_for)
