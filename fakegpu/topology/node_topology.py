"""The topology of one node: the only source of plugin, nvidia-smi and metrics.

It has the seed operator's two formats: YAML with ``lowerCamel`` keys in the node's ConfigMap, and
JSON with ``CapitalCase`` keys from the topology server. Fields that the seed does not have are left
out if they are empty.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from fakegpu.topology import plain_yaml
from fakegpu.topology.numa import Distances, Numa

MigStrategy = Literal["none", "single", "mixed"]
#: Whether DRA offers the GPUs: beside the device plugin, or instead of it.
Dra = Literal["beside", "instead"]


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of the document."""


class Utilization(_Wire, frozen=True):
    """A range in per cent, both ends included; readers draw a random value."""

    min: int = 0
    max: int = 0


class Usage(_Wire, frozen=True):
    """The usage of a GPU by one pod; memory in MiB."""

    utilization: Utilization = Utilization()
    fb_used: int = 0
    use_knative_utilization: bool = False


class AllocatedBy(_Wire, frozen=True):
    """The container that holds a device; empty texts: none."""

    namespace: str = ""
    pod: str = ""
    container: str = ""


class Status(_Wire, frozen=True):
    """Holders of a device, and the usage of pods by their uids.

    ``holders`` are all of a shared device; ``allocated_by`` is the first.
    """

    allocated_by: AllocatedBy = AllocatedBy()
    pod_gpu_usage_status: dict[str, Usage] = {}
    holders: tuple[AllocatedBy, ...] | UnsetType = UNSET

    @property
    def held_by(self) -> tuple[AllocatedBy, ...]:
        """Every container that holds it."""
        if self.holders is not UNSET:
            return self.holders
        return (self.allocated_by,) if self.allocated_by.pod else ()


class Failure(_Wire, frozen=True):
    """A failed GPU: an XID error, or fallen off the bus (XID 79)."""

    xid: int
    off_bus: bool = False

    def __str__(self) -> str:
        return "has fallen off the bus (XID 79)" if self.off_bus else f"failed with XID {self.xid}"


class MigDevice(_Wire, frozen=True):
    """One MIG instance; memory in MiB."""

    id: str
    profile: str
    position: int
    size: int
    memory: int
    gpu_instance_id: int
    status: Status = Status()


class Gpu(_Wire, frozen=True):
    """One GPU. ``product`` and ``memory`` are set if the node's GPUs differ.

    ``mig_devices`` is set, and may be empty, while the GPU is in MIG mode. ``partitionable``: DRA
    offers every part of it, and allocations partition it.
    """

    id: str
    status: Status = Status()
    product: str | UnsetType = UNSET
    memory: int | UnsetType = UNSET
    mig_devices: tuple[MigDevice, ...] | UnsetType = UNSET
    failure: Failure | UnsetType = UNSET
    partitionable: bool | UnsetType = UNSET

    @property
    def has_mig(self) -> bool:
        """Whether it is in MIG mode."""
        return self.mig_devices is not UNSET

    @property
    def instances(self) -> tuple[MigDevice, ...]:
        """Its MIG instances."""
        return () if self.mig_devices is UNSET else self.mig_devices

    @property
    def is_healthy(self) -> bool:
        """Whether it can be used."""
        return self.failure is UNSET


class OtherDevice(_Wire, frozen=True):
    """A number of another extended resource."""

    name: str
    count: int


class Shared(_Wire, frozen=True):
    """A resource whose devices are advertised several times each."""

    name: str
    replicas: int
    rename: str | UnsetType = UNSET

    @property
    def offered(self) -> str:
        """The advertised resource."""
        return self.name if self.rename is UNSET else self.rename


class Sharing(_Wire, frozen=True):
    """Time-slicing, as in NVIDIA's device plugin."""

    resources: tuple[Shared, ...] = ()
    fail_requests_greater_than_one: bool = False

    def of(self, resource: str) -> Shared | None:
        """The sharing of a resource, if it is shared."""
        return next((one for one in self.resources if one.name == resource), None)


class NodeTopology(_Wire, frozen=True):
    """One node; memory in MiB."""

    gpu_memory: int
    gpu_product: str
    driver_version: str | UnsetType = UNSET
    cuda_version: str | UnsetType = UNSET
    gpus: tuple[Gpu, ...] = ()
    mig_strategy: MigStrategy = "mixed"
    other_devices: tuple[OtherDevice, ...] | UnsetType = UNSET
    sharing: Sharing | UnsetType = UNSET
    dra: Dra | UnsetType = UNSET
    numa: Numa | UnsetType = UNSET

    @property
    def shared(self) -> Sharing:
        """The sharing; by default nothing is shared."""
        return Sharing() if self.sharing is UNSET else self.sharing

    def product_of(self, gpu: Gpu) -> str:
        """A GPU's product."""
        return self.gpu_product if gpu.product is UNSET else gpu.product

    def memory_of(self, gpu: Gpu) -> int:
        """A GPU's memory in MiB."""
        return self.gpu_memory if gpu.memory is UNSET else gpu.memory


class TopologyError(ValueError):
    """Text that is not a node topology; one line."""


def encode_yaml(topology: NodeTopology) -> str:
    """The text of the node's ConfigMap."""
    return plain_yaml.dump(msgspec.to_builtins(topology))


def decode_yaml(text: str) -> NodeTopology:
    """The inverse, or TopologyError."""
    try:
        return msgspec.yaml.decode(text.encode(), type=NodeTopology)
    except msgspec.MsgspecError as error:
        raise TopologyError(str(error)) from error


def encode_json(topology: NodeTopology) -> bytes:
    """The topology server's response."""
    document = msgspec.to_builtins(topology)
    # The seed's server has no optional fields: these three are always there.
    document = {"driverVersion": "", "cudaVersion": "", "otherDevices": None, **document}
    return msgspec.json.encode(_capitals(document))


def _spellings() -> dict[str, str]:
    """lowerCamel -> CapitalCase, for every field of the document."""
    parts = (
        *(NodeTopology, Gpu, Status, AllocatedBy, Usage, Utilization, OtherDevice),
        *(MigDevice, Failure, Shared, Sharing, Numa, Distances),
    )
    names = {f.encode_name for part in parts for f in msgspec.structs.fields(part)}
    return {name: "ID" if name == "id" else name[0].upper() + name[1:] for name in sorted(names)}


_CAPITAL: Final = _spellings()


def _capitals(value: Any) -> Any:
    """Keys in capitals; the uids of pods, which are keys too, are not changed."""
    if isinstance(value, dict):
        return {_CAPITAL.get(key, key): _capitals(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_capitals(inner) for inner in value]
    return value
