"""One pool of user input, in any documented shape.

    gpuProduct, gpuCount, gpuMemory               the seed operator's first, and its values files
    gpus: [{type, memory, count}]                 its README; GPUs of a node may differ
    gpu: {profile, overrides, backend}            its newest

Beside any of them: ``otherDevices`` or ``resources``, ``numa``, ``migStrategy``, ``mig`` (a MIG
configuration as in the node's annotation) and ``sharing`` (as in the device plugin's file).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from fakegpu import names
from fakegpu.catalog import profiles
from fakegpu.catalog.products import PRODUCTS, product_of
from fakegpu.topology import mig_config
from fakegpu.topology.invalid import Invalid, convert
from fakegpu.topology.memory import parse_mib
from fakegpu.topology.node_topology import MigStrategy, OtherDevice
from fakegpu.topology.numa import Numa
from fakegpu.topology.pools import GpuKind, Pool
from fakegpu.topology.sharing import SharingSection
from scheduler.model import quantity

GPUS_MAX = 256
Count = Annotated[int, msgspec.Meta(ge=0, le=GPUS_MAX)]


class _Part(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A section of a pool."""


class _Row(_Part, frozen=True):
    type: str
    memory: int | str = ""
    count: Count = 1


class _Gpu(_Part, frozen=True):
    profile: str
    backend: Literal["fake", "mock"] = "fake"
    overrides: dict[str, Any] = {}


class _Other(_Part, frozen=True):
    name: str
    count: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class _Pool(_Part, frozen=True):
    gpu_product: str | UnsetType = UNSET
    gpu_count: Count | UnsetType = UNSET
    gpu_memory: int | str | UnsetType = UNSET
    gpus: tuple[_Row, ...] | UnsetType = UNSET
    gpu: _Gpu | UnsetType = UNSET
    other_devices: tuple[_Other, ...] | None = None
    resources: tuple[dict[str, int], ...] | None = None
    numa: Numa | None = None
    mig_strategy: MigStrategy | None = None
    mig: Any = None
    sharing: SharingSection | None = None


Hardware = tuple[tuple[GpuKind, ...], str, str]


def read_pool(
    name: str, document: object, path: str, documents: Mapping[str, profiles.Document]
) -> Pool:
    """A pool, or Invalid; ``documents`` are the cluster's own profiles."""
    wire = convert(document, _Pool, path)
    gpus, driver, cuda = _hardware(wire, path, documents)
    if len(gpus) > GPUS_MAX:
        raise Invalid(path, f"a node has at most {GPUS_MAX} GPUs, got {len(gpus)}")
    gpu_models = tuple(gpu.gpu_model for gpu in gpus)
    at = f"{path}.mig"
    return Pool(
        name=name,
        gpus=gpus,
        driver=driver,
        cuda=cuda,
        backend=wire.gpu.backend if wire.gpu is not UNSET else "fake",
        mig_strategy=wire.mig_strategy,
        layouts=mig_config.from_document(wire.mig, gpu_models, at) if wire.mig else None,
        sharing=wire.sharing.read(f"{path}.sharing") if wire.sharing else None,
        others=_others(wire),
        numa=_checked_numa(wire.numa, len(gpus), f"{path}.numa"),
    )


def _hardware(wire: _Pool, path: str, documents: Mapping[str, profiles.Document]) -> Hardware:
    flat = (wire.gpu_product, wire.gpu_count, wire.gpu_memory)
    shapes = [wire.gpus is not UNSET, wire.gpu is not UNSET, any(v is not UNSET for v in flat)]
    if sum(shapes) > 1:
        raise Invalid(path, "give one of gpu, gpus, or gpuProduct with gpuCount, not several")
    if wire.gpu is not UNSET:
        return _of_profile(wire.gpu, f"{path}.gpu", documents)
    if wire.gpus is not UNSET:
        kinds: list[GpuKind] = []
        for number, row in enumerate(wire.gpus):
            at = f"{path}.gpus[{number}]"
            kinds += [_kind(row.type, row.memory, f"{at}.type", f"{at}.memory")] * row.count
        return _with_driver(tuple(kinds))
    if wire.gpu_product is UNSET:
        if shapes[2]:
            raise Invalid(f"{path}.gpuProduct", "missing")
        return (), "", ""
    memory = "" if wire.gpu_memory is UNSET else wire.gpu_memory
    kind = _kind(wire.gpu_product, memory, f"{path}.gpuProduct", f"{path}.gpuMemory")
    return _with_driver((kind,) * (1 if wire.gpu_count is UNSET else wire.gpu_count))


def _kind(product: str, memory: int | str, product_path: str, memory_path: str) -> GpuKind:
    mib = parse_mib(memory, memory_path) if memory != "" else 0
    known = product_of(product, mib)
    if not product.strip():
        raise Invalid(product_path, "expected the product's name")
    if known is None and not mib:
        words = ", ".join(PRODUCTS)
        raise Invalid(product_path, f"{product!r} is not in the catalog ({words}); give its memory")
    title = known.title if known and product.strip().lower() == known.kind else product.strip()
    return GpuKind(title, mib or (known.memory_mib if known else 0))


def _with_driver(gpus: tuple[GpuKind, ...]) -> Hardware:
    first = product_of(gpus[0].product, gpus[0].memory_mib) if gpus else None
    return (gpus, *(profiles.driver_of(first) if gpus else ("", "")))


def _of_profile(gpu: _Gpu, path: str, documents: Mapping[str, profiles.Document]) -> Hardware:
    base = documents.get(gpu.profile) or profiles.builtin(gpu.profile)
    if base is None:
        known = ", ".join(sorted({*documents, *PRODUCTS}))
        raise Invalid(f"{path}.profile", f"no profile {gpu.profile!r}; there are {known}")
    try:
        machine = profiles.machine(profiles.merge(base, gpu.overrides))
    except profiles.ProfileError as error:
        where = f"{path}.overrides" if gpu.overrides else f"{path}.profile"
        raise Invalid(f"{where}.{error.path}", error.problem) from error
    kind = GpuKind(machine.product, machine.memory_mib)
    return (kind,) * machine.count, machine.driver, machine.cuda


def _others(wire: _Pool) -> tuple[OtherDevice, ...]:
    """Both spellings merged, sorted; the count of whole GPUs is determined by the hardware."""
    counts = {other.name: other.count for other in wire.other_devices or ()}
    for entry in wire.resources or ():
        counts |= entry
    counts.pop(names.GPU, None)
    return tuple(OtherDevice(name=name, count=counts[name]) for name in sorted(counts))


def _checked_numa(numa: Numa | None, gpus: int, path: str) -> Numa | None:
    if numa is None:
        return None
    for key, amount in (("cpuPerZone", numa.cpu_per_zone), ("memPerZone", numa.mem_per_zone)):
        try:
            quantity.value(amount or 0)
        except quantity.QuantityError as error:
            raise Invalid(f"{path}.{key}", str(error)) from error
    if numa.gpus_per_zone:
        if len(numa.gpus_per_zone) != numa.zones:
            raise Invalid(f"{path}.gpusPerZone", f"expected {numa.zones} numbers, one per zone")
        if sum(numa.gpus_per_zone) != gpus:
            raise Invalid(f"{path}.gpusPerZone", f"the zones have to add up to {gpus} GPUs")
    return numa
