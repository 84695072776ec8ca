"""Amounts of GPU that teams hold: compute slices and memory, and what one device is worth.

A whole GPU is all of its compute slices (7, of an A30 4) and all of its memory; an instance is the
slices and the gigabytes of its profile's name. A GPU without MIG counts 7 slices.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import msgspec

from scheduler.model import well_known
from scheduler.model.gpu.plugin_resources import SHARED as RENAMED
from scheduler.model.mig.gpu_models import GPU_MODELS, gpu_model_of
from scheduler.model.mig.node_geometry import memory_mib, replicas
from scheduler.model.mig.profile import compute_instances, nominal_mib, size_key
from scheduler.model.node import Node

#: Parts of a compute slice in which amounts are counted.
SLICE: Final = 1000
MIB_PER_GB: Final = 1024
_SLICES: Final = 7


class GpuAmount(msgspec.Struct, frozen=True, gc=False):
    """Compute slices in thousandths, and memory in MiB."""

    slices: int = 0
    mib: int = 0

    def __bool__(self) -> bool:
        return bool(self.slices or self.mib)

    def plus(self, other: GpuAmount) -> GpuAmount:
        """Both together."""
        return GpuAmount(self.slices + other.slices, self.mib + other.mib)

    def minus(self, other: GpuAmount) -> GpuAmount:
        """Without the other; may be negative."""
        return GpuAmount(self.slices - other.slices, self.mib - other.mib)

    def times(self, factor: Fraction | int) -> GpuAmount:
        """A multiple, rounded down."""
        return GpuAmount(int(self.slices * factor), int(self.mib * factor))

    def clamped(self) -> GpuAmount:
        """The same without negative parts."""
        return GpuAmount(max(0, self.slices), max(0, self.mib))

    def fits_in(self, other: GpuAmount) -> bool:
        """Whether neither part is larger."""
        return self.slices <= other.slices and self.mib <= other.mib

    def __str__(self) -> str:
        return f"{slices_text(self.slices)} and {gb_text(self.mib)}"


NOTHING: Final = GpuAmount()


def slices_text(thousandths: int) -> str:
    """Slices for messages.

    >>> slices_text(7000), slices_text(3500)
    ('7 slices', '3.5 slices')
    """
    return f"{thousandths / SLICE:g} slices"


def gb_text(mib: int) -> str:
    """Gigabytes for messages, in the unit of profile names."""
    return f"{mib / MIB_PER_GB:g} GB"


class GpuKind(msgspec.Struct, frozen=True, cache_hash=True):
    """What devices of a node are worth: a whole GPU, and what ``nvidia.com/gpu`` counts there.

    ``unit`` is a MIG profile where the resource counts instances. ``shares`` has the number of
    shares of one device for resources that have more than one.
    """

    whole: GpuAmount
    unit: str = ""
    shares: tuple[tuple[str, int], ...] = ()

    def of(self, resource: str, count: int) -> GpuAmount:
        """What so many devices of a resource are worth."""
        base = resource.removesuffix(RENAMED)
        unit = self.unit if base == well_known.GPU else well_known.mig_profile(base)
        one = profile_amount(unit) if nominal_mib(unit) else self.whole
        parts = dict(self.shares).get(base, 1) if self.shares else 1
        return one.times(count) if parts == 1 else one.times(Fraction(count, parts))


#: A node without labels.
UNKNOWN: Final = GpuKind(GpuAmount(_SLICES * SLICE))


def profile_amount(profile: str) -> GpuAmount:
    """Slices and gigabytes of a profile's name, with any suffix such as ``+me``.

    >>> profile_amount("1g.10gb+me"), profile_amount("1c.3g.40gb").slices
    (GpuAmount(slices=1000, mib=10240), 1000)
    """
    slices, mib = size_key(profile)[1], nominal_mib(profile)
    part = compute_instances(profile)
    if part is None or not slices:
        return GpuAmount(slices * SLICE, mib)
    return GpuAmount(part * SLICE, mib * part // slices)


def whole_gpu(product: str, memory: int, unit: str = "") -> GpuAmount:
    """A GPU of a product with so many MiB, as far as they are known."""
    gpu_model = gpu_model_of(product, memory, (unit,) if unit else ())
    if gpu_model is None:
        return GpuAmount(_SLICES * SLICE, _rounded(memory))
    return GpuAmount(gpu_model.compute_slices * SLICE, gpu_model.memory_gb * MIB_PER_GB)


def kind_of(node: Node) -> GpuKind:
    """What devices of a node are worth."""
    labels = node.labels
    known = GPU_MODELS.get(node.geometry.gpu_model)
    if known is not None:
        whole = GpuAmount(known.compute_slices * SLICE, known.memory_gb * MIB_PER_GB)
    else:
        whole = whole_gpu(labels.get(well_known.GPU_PRODUCT, ""), memory_mib(labels))
    shared = (
        (base, replicas(labels, base))
        for base in dict.fromkeys(one.removesuffix(RENAMED) for one in node.devices)
    )
    shares = tuple(sorted((base, parts) for base, parts in shared if parts > 1))
    return GpuKind(whole, node.single_profile, shares)


def _rounded(memory: int) -> int:
    """A board's memory in whole gigabytes: labels have a little less than the product's name."""
    return -(-memory // MIB_PER_GB) * MIB_PER_GB
