"""The boards with MIG, and the board of a node.

Names and sizes are those of NVIDIA's MIG guide and of listings by ``nvidia-smi mig -lgip``;
``docs/mig.md`` has the source of each board, and which values are by analogy only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from scheduler.model.mig.profile import GpuModel, Profile, ProfileShape, canonical

_SEVENTHS: Final = (
    ProfileShape.ONE,
    ProfileShape.ONE_DOUBLE,
    ProfileShape.TWO,
    ProfileShape.THREE,
    ProfileShape.FOUR,
    ProfileShape.SEVEN,
)
_QUARTERS: Final = (ProfileShape.QUARTER, ProfileShape.TWO_QUARTERS, ProfileShape.FOUR_QUARTERS)
_HALVES: Final = (ProfileShape.HALF, ProfileShape.TWO_HALVES)
_MEDIA: Final = {
    ProfileShape.ONE: ProfileShape.ONE_MEDIA,
    ProfileShape.QUARTER: ProfileShape.QUARTER_MEDIA,
    ProfileShape.TWO_QUARTERS: ProfileShape.TWO_QUARTERS_MEDIA,
}


def _gpu_model(
    name: str,
    kinds: tuple[ProfileShape, ...],
    gigabytes: str,
    *,
    mib: dict[ProfileShape, int] | None = None,
    variants: tuple[str, ...] = ("1g+me",),
    also: str = "",
) -> GpuModel:
    """A board from its profiles' gigabytes, in the order of ``kinds``."""
    sizes = [int(size) for size in gigabytes.split()]
    profiles: dict[str, Profile] = {}
    for kind, size in zip(kinds, sizes, strict=True):
        text = f"{kind.compute}g.{size}gb"
        memory = (mib or {}).get(kind)
        profiles[text] = Profile(name=text, kind=kind, memory_mib=memory)
        if kind is ProfileShape.ONE_DOUBLE:
            continue
        for variant in variants:
            if variant.startswith(f"{kind.compute}g"):
                suffix = variant[2:]
                its_kind = _MEDIA[kind] if suffix.startswith("+me") else kind
                named = text + suffix
                profiles[named] = Profile(name=named, kind=its_kind, memory_mib=memory)
    of_kind = {kind.compute: kind for kind in kinds if kind is not ProfileShape.ONE_DOUBLE}
    aliases = {
        alias: Profile(name=alias, kind=of_kind[int(alias.partition("g")[0])])
        for alias in also.split()
    }
    return GpuModel(
        name=name,
        memory_slices=kinds[0].model_slices,
        memory_gb=sizes[-1],
        profiles=profiles,
        aliases=aliases,
    )


def _mib(one: int, double: int, three: int, seven: int) -> dict[ProfileShape, int]:
    return {
        ProfileShape.ONE: one,
        ProfileShape.ONE_DOUBLE: double,
        ProfileShape.TWO: double,
        ProfileShape.THREE: three,
        ProfileShape.FOUR: three,
        ProfileShape.SEVEN: seven,
    }


_RTX_6000: Final = (
    *("1g+gfx", "1g-me", "1g+me", "1g+me.all"),
    *("2g+gfx", "2g-me", "2g+me.all", "4g+gfx"),
)

GPU_MODELS: Final[dict[str, GpuModel]] = {
    gpu_model.name: gpu_model
    for gpu_model in (
        _gpu_model("A100-40", _SEVENTHS, "5 10 10 20 20 40", mib=_mib(4864, 9856, 19968, 40192)),
        _gpu_model("A100-80", _SEVENTHS, "10 20 20 40 40 80", mib=_mib(9856, 19968, 40192, 80384)),
        _gpu_model("H100-80", _SEVENTHS, "10 20 20 40 40 80"),
        _gpu_model("H100-94", _SEVENTHS, "12 24 24 47 47 94"),
        _gpu_model("H100-96", _SEVENTHS, "12 24 24 48 48 96"),
        _gpu_model("GH200-144", _SEVENTHS, "18 36 36 72 72 144"),
        _gpu_model("H200-141", _SEVENTHS, "18 35 35 71 71 141"),
        # A board of the simulation that preceded this product: no such card was ever sold.
        _gpu_model("H200-70", _SEVENTHS, "10 20 20 40 40 70", also="3g.30gb"),
        _gpu_model("B200-180", _SEVENTHS, "23 45 45 90 90 180"),
        _gpu_model(
            "GB200-186", _SEVENTHS, "23 47 47 93 93 186", also="1g.24gb 3g.95gb 4g.95gb 7g.189gb"
        ),
        _gpu_model("B300-269", _SEVENTHS, "34 67 67 135 135 269"),
        _gpu_model("GB300-278", _SEVENTHS, "35 70 70 139 139 278"),
        _gpu_model(
            "A30-24",
            _QUARTERS,
            "6 12 24",
            mib={ProfileShape.QUARTER: 5836},
            variants=("1g+me", "2g+me"),
        ),
        _gpu_model("RTX-PRO-6000", _QUARTERS, "24 48 96", variants=_RTX_6000),
        _gpu_model("RTX-PRO-5000", _HALVES, "24 48", variants=()),
        _gpu_model("RTX-PRO-4500", _HALVES, "16 32", variants=()),
    )
}

#: The product in a node's label, without ``NVIDIA-`` and suffixes -> possible boards.
_PRODUCTS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = tuple(
    (re.compile(pattern), tuple(gpu_models.split()))
    for pattern, gpu_models in (
        (r"a[18]00\b.*\b40gb?\b", "A100-40"),
        (r"a[18]00\b.*\b80gb?\b", "A100-80"),
        (r"a30\b", "A30-24"),
        (r"gh200\b.*\b144gb?\b", "GH200-144"),
        (r"gh200\b", "H100-96"),
        (r"h[18]00\b.*\b(?:nvl|94gb?)\b", "H100-94"),
        (r"h100\b.*\b96gb?\b", "H100-96"),
        (r"h[18]00\b", "H100-80"),
        (r"pg506\b", "H100-96"),
        (r"h20\b.*\b(?:3e|141gb?)\b", "H200-141"),
        (r"h20\b", "H100-96 H200-141"),
        (r"h200\b", "H200-141 H200-70"),
        (r"gb200\b", "GB200-186"),
        (r"gb300\b", "GB300-278"),
        (r"b200\b", "B200-180"),
        (r"b300\b", "B300-269"),
        (r"rtx-pro-6000\b.*\bblackwell\b", "RTX-PRO-6000"),
        (r"rtx-pro-5000\b.*\bblackwell\b", "RTX-PRO-5000"),
        (r"rtx-pro-4500\b.*\bblackwell\b", "RTX-PRO-4500"),
    )
)

#: PCI device ids, as mig-parted's filters write them.
_PCI: Final = {
    pci: name
    for name, ids in (
        ("A100-40", "20b0 20b1 20f1 20f6"),
        ("A100-80", "20b2 20b5 20f3 20f5"),
        ("H100-80", "2330 2331 2322 2324"),
        ("H100-94", "2321 233a"),
        ("H100-96", "2342 233d 20b6 2329"),
        ("GH200-144", "2348"),
        ("H200-141", "2335 233b"),
        ("B200-180", "2901"),
        ("GB200-186", "2941"),
        ("B300-269", "3182"),
        ("GB300-278", "31c2"),
        ("A30-24", "20b7"),
        ("RTX-PRO-6000", "2bb5"),
    )
    for pci in ids.split()
}
_PCI_FORM: Final = re.compile(r"(?:0x)?([0-9a-f]{4})(?::?10de)?")
_SUFFIX: Final = re.compile(r"-(?:mig-.*|shared)$", re.IGNORECASE)


def board_name(product: str) -> str:
    """A product label without what strategy ``single`` and shares append to it.

    >>> board_name("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"), board_name("Tesla-T4-SHARED")
    ('NVIDIA-A100-SXM4-40GB', 'Tesla-T4')
    """
    return _SUFFIX.sub("", product)


def gpu_model_of(
    product: str, memory_mib: int = 0, profiles: Iterable[str] = ()
) -> GpuModel | None:
    """The board of a product label (``NVIDIA-A100-SXM4-80GB``) or a PCI id (``0x20B210DE``).

    Some labels match two boards; the profiles of the node decide, then its memory.
    """
    return _gpu_model_of(product, memory_mib, tuple(profiles))


@lru_cache(maxsize=4096)
def _gpu_model_of(product: str, memory_mib: int, profiles: tuple[str, ...]) -> GpuModel | None:
    text = product.strip().lower().replace(" ", "-").replace("_", "-")
    found = _PCI_FORM.fullmatch(text)
    if found and found[1] in _PCI:  # "b200" has the form of an id too
        return GPU_MODELS[_PCI[found[1]]]
    text = _SUFFIX.sub("", text).removeprefix("nvidia-").removeprefix("tesla-")
    for pattern, candidates in _PRODUCTS:
        if pattern.match(text):
            return _nearest([GPU_MODELS[name] for name in candidates], memory_mib, profiles)
    return None


def _nearest(gpu_models: list[GpuModel], memory_mib: int, profiles: tuple[str, ...]) -> GpuModel:
    """The board with most of the profile names; then the nearest memory; then the first."""
    wanted = set(map(canonical, profiles))

    def misfit(gpu_model: GpuModel) -> tuple[int, float]:
        unknown = len(wanted - gpu_model.profiles.keys() - gpu_model.aliases.keys())
        return unknown, abs(gpu_model.memory_gb - memory_mib / 1024) if memory_mib else 0.0

    return min(gpu_models, key=misfit)
