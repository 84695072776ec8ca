"""The fields of ResourceSlices and ResourceClaims that are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from fakegpu import names
from fakegpu.api_types import Meta
from fakegpu.node.pod_devices import Allotted, ClaimKey

GROUP: Final = "/apis/resource.k8s.io/v1"
SLICES: Final = f"{GROUP}/resourceslices"
CLAIMS: Final = f"{GROUP}/resourceclaims"
API_VERSION: Final = "resource.k8s.io/v1"
#: The API server adds it to a taint.
_ADDED: Final = "timeAdded"


class SliceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A slice: its pool, the pool's generation, and a digest of its content."""

    name: str
    driver: str
    pool: str
    generation: int
    digest: str
    version: int = 0


class _Pool(msgspec.Struct, frozen=True):
    name: str
    generation: int = 0


class _SliceSpec(msgspec.Struct, frozen=True):
    driver: str
    pool: _Pool


class _Slice(msgspec.Struct, frozen=True):
    metadata: Meta
    spec: msgspec.Raw


_SLICE = msgspec.json.Decoder(_Slice)
_SPEC = msgspec.json.Decoder(_SliceSpec)


def resource_slice(content: bytes) -> tuple[str, SliceFacts | None]:
    """A slice by its name."""
    wire = _SLICE.decode(content)
    spec = _SPEC.decode(wire.spec)
    return wire.metadata.name, SliceFacts(
        name=wire.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        digest=digest(msgspec.json.decode(wire.spec)),
        version=int(wire.metadata.resource_version),
    )


def our_slice(content: bytes) -> tuple[str, SliceFacts | None]:
    """A slice by its name, if it belongs to one of our drivers."""
    name, facts = resource_slice(content)
    is_ours = facts is not None and facts.driver in (names.DRA_DRIVER, names.DOMAIN_DRIVER)
    return name, facts if is_ours else None


def digest(spec: dict[str, Any]) -> str:
    """A digest of a slice's content without its pool's generation."""
    pool = {key: value for key, value in spec["pool"].items() if key != "generation"}
    content_of_spec = _without_times({**spec, "pool": pool})
    content = msgspec.json.encode(content_of_spec, order="sorted")
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_times(inner) for key, inner in value.items() if key != _ADDED}
    if isinstance(value, list):
        return [_without_times(inner) for inner in value]
    return value


class Opaque(msgspec.Struct, frozen=True):
    """Parameters for a driver; the content is not decoded."""

    driver: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class Configured(msgspec.Struct, frozen=True):
    """Parameters for the named requests; without names for all."""

    requests: tuple[str, ...] | None = None
    opaque: Opaque | None = None
    source: str = ""


class Result(msgspec.Struct, frozen=True, rename="camel"):
    """One allocated device; the request may be ``name/alternative``."""

    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(default=None, name="shareID")


class _Devices(msgspec.Struct, frozen=True):
    results: tuple[Result, ...] | None = None
    config: tuple[Configured, ...] | None = None


class _Allocation(msgspec.Struct, frozen=True):
    devices: _Devices = _Devices()


class _ClaimStatus(msgspec.Struct, frozen=True):
    allocation: _Allocation | None = None


class Claim(msgspec.Struct, frozen=True):
    """The fields of a claim that are read."""

    metadata: Meta
    status: _ClaimStatus = _ClaimStatus()

    @property
    def results(self) -> tuple[Result, ...]:
        """Every allocated device."""
        allocation = self.status.allocation
        return (allocation.devices.results if allocation else None) or ()

    @property
    def config(self) -> tuple[Configured, ...]:
        """Parameters, those of the class first."""
        allocation = self.status.allocation
        return (allocation.devices.config if allocation else None) or ()


read_claim: Final = msgspec.json.Decoder(Claim).decode


class ClaimFacts(msgspec.Struct, frozen=True):
    """A claim with devices of a driver, by pool."""

    key: ClaimKey
    pools: frozenset[str]
    allotted: tuple[tuple[str, Allotted], ...]

    def on(self, pool: str) -> tuple[Allotted, ...]:
        """Its devices in a pool."""
        return tuple(one for its_pool, one in self.allotted if its_pool == pool)


def claim(driver: str) -> Callable[[bytes], tuple[str, ClaimFacts | None]]:
    """A decoder of claims by uid, for claims with devices of a driver."""

    def decode(content: bytes) -> tuple[str, ClaimFacts | None]:
        wire = read_claim(content)
        meta = wire.metadata
        # Admin access does not take the device away from others.
        ours = [one for one in wire.results if one.driver == driver and not one.admin_access]
        if not ours:
            return meta.uid, None
        allotted = tuple((one.pool, Allotted(one.request, one.device)) for one in ours)
        pools = frozenset(pool for pool, _ in allotted)
        return meta.uid, ClaimFacts((meta.namespace, meta.name), pools, allotted)

    return decode
