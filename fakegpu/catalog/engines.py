"""Multiprocessors and engines of a MIG instance, as NVML counts them.

Listings by ``nvidia-smi mig -lgip`` were available for A100 80 GB, H100 NVL and H100 PCIe; A30 is
from NVIDIA's guide. Blackwell has 18 multiprocessors for each compute slice in NVIDIA's own tables;
its engines are by analogy to Hopper. Elsewhere an instance has a proportional share of the
multiprocessors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model.mig import layout


class Engines(msgspec.Struct, frozen=True):
    """Counts of one instance, in the order of NVML's structure."""

    multiprocessors: int
    copy: int
    decoder: int = 0
    encoder: int = 0
    jpeg: int = 0
    ofa: int = 0


#: Family | kind of instance | multiprocessors, copy, decoder, encoder, JPEG, optical flow.
_ROWS: Final = """
a100        | 1g     |  14  1 0 0 0 0
a100        | 1g+me  |  14  1 1 0 1 1
a100        | 1gD    |  14  1 1 0 0 0
a100        | 2g     |  28  2 1 0 0 0
a100        | 3g     |  42  3 2 0 0 0
a100        | 4g     |  56  4 2 0 0 0
a100        | 7g     |  98  7 5 0 1 1
a30         | 1g     |  14  1 0 0 0 0
a30         | 1g+me  |  14  1 1 0 1 1
a30         | 2g     |  28  2 2 0 0 0
a30         | 2g+me  |  28  2 2 0 1 1
a30         | 4g     |  56  4 4 0 1 1
hopper      | 1g     |  16  1 1 0 1 0
hopper      | 1g+me  |  16  1 1 0 1 1
hopper      | 1gD    |  26  1 1 0 1 0
hopper      | 2g     |  32  2 2 0 2 0
hopper      | 3g     |  60  3 3 0 3 0
hopper      | 4g     |  64  4 4 0 4 0
hopper      | 7g     | 132  8 7 0 7 1
hopper-pcie | 1g     |  14  1 1 0 1 0
hopper-pcie | 1g+me  |  14  1 1 0 1 1
hopper-pcie | 1gD    |  14  1 1 0 1 0
hopper-pcie | 2g     |  30  2 2 0 2 0
hopper-pcie | 3g     |  46  3 3 0 3 0
hopper-pcie | 4g     |  62  4 4 0 4 0
hopper-pcie | 7g     | 114  8 7 0 7 1
blackwell   | 1g     |  18  1 1 0 1 0
blackwell   | 1g+me  |  18  1 1 0 1 1
blackwell   | 1gD    |  18  1 1 0 1 0
blackwell   | 2g     |  36  2 2 0 2 0
blackwell   | 3g     |  54  3 3 0 3 0
blackwell   | 4g     |  72  4 4 0 4 0
blackwell   | 7g     | 126  7 7 0 7 1
"""


def _read(row: str) -> tuple[tuple[str, str], Engines]:
    family, kind, counts = (part.strip() for part in row.split("|"))
    return (family, kind), Engines(*map(int, counts.split()))


_TABLE: Final[Mapping[tuple[str, str], Engines]] = dict(map(_read, _ROWS.strip().splitlines()))
_FAMILIES: Final = (
    ("A100-", "a100"),
    ("A30-", "a30"),
    (("H100-", "H200-", "GH200-"), "hopper"),
    (("B200-", "B300-", "GB200-", "GB300-"), "blackwell"),
)
#: Ampere changes its MIG mode only by a reset, later GPUs at any time.
_BY_RESET: Final = ("A100-", "A30-")
#: Of boards without a table of their own.
_MULTIPROCESSORS: Final = {"RTX-PRO-6000": 188, "RTX-PRO-5000": 110, "RTX-PRO-4500": 82}
_PCIE_MULTIPROCESSORS: Final = 114


def engines_of(
    gpu_model: layout.GpuModel, profile: layout.Profile, multiprocessors: int = 0
) -> Engines:
    """The engines of an instance; ``multiprocessors`` are the product's, 0 if unknown.

    >>> a100 = layout.GPU_MODELS["A100-40"]
    >>> engines_of(a100, a100.profiles["3g.20gb"])
    Engines(multiprocessors=42, copy=3, decoder=2, encoder=0, jpeg=0, ofa=0)
    """
    family = next((word for start, word in _FAMILIES if gpu_model.name.startswith(start)), "")
    if family == "hopper" and multiprocessors == _PCIE_MULTIPROCESSORS:
        family = "hopper-pcie"
    known = _TABLE.get((family, profile.kind.label))
    return known or _by_share(gpu_model, profile, multiprocessors)


def _by_share(gpu_model: layout.GpuModel, profile: layout.Profile, multiprocessors: int) -> Engines:
    total = _MULTIPROCESSORS.get(gpu_model.name, multiprocessors)
    share = total * profile.compute // gpu_model.compute_slices
    if profile.name.endswith("-me"):
        return Engines(share, profile.compute)
    media = gpu_model.compute_slices if profile.name.endswith("+me.all") else profile.compute
    is_with_ofa = profile.kind.is_media or profile.size == gpu_model.memory_slices
    return Engines(share, profile.compute, media, media, media, int(is_with_ofa))


def needs_mig_mode(gpu_model: layout.GpuModel) -> bool:
    """Whether such a GPU must be in MIG mode before DRA can partition it."""
    return gpu_model.name.startswith(_BY_RESET)
