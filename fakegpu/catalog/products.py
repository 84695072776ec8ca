"""The catalog of GPUs, with the values that nodes and tools show.

Memory is the value of ``nvidia-smi`` in MiB; for the seven profiles of the seed operator it is the
seed's number, because tests of other tools compare with it. The name of GB200 is NVML's; the seed's
``NVIDIA GB200 NVL`` is found too. The MIG geometry of a product is in
``scheduler.model.mig.layout.gpu_model_of``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec


class Product(msgspec.Struct, frozen=True, kw_only=True):
    """One product; ``title`` is its name in nvidia-smi, ``kind`` the short name in labels."""

    title: str
    kind: str
    memory_mib: int
    family: str
    compute: tuple[int, int]
    multiprocessors: int
    nvlinks: int
    power_w: int

    @property
    def label(self) -> str:
        """The value of the label ``nvidia.com/gpu.product``."""
        return label_value(self.title)

    @property
    def brand(self) -> str:
        """NVML's brand, as published by DRA."""
        return "Tesla" if self.title.startswith("Tesla ") else "Nvidia"

    @property
    def architecture(self) -> str:
        """The family, as published by DRA: ``Ada Lovelace``."""
        return self.family.replace("-", " ").title()

    @property
    def is_in_fabric(self) -> bool:
        """Whether NVML reports the NVLink clique of such a GPU."""
        return self.kind in ("h100", "gb200", "gb300")


_EDGES: Final = re.compile(r"^[^A-Za-z0-9]+|[^A-Za-z0-9]+$")


def label_value(text: str) -> str:
    """Any text as the value of a label.

    >>> label_value("NVIDIA H100 80GB HBM3"), label_value("-Tesla K80 (fake)-")
    ('NVIDIA-H100-80GB-HBM3', 'Tesla-K80--fake')
    """
    return _EDGES.sub("", re.sub(r"[^A-Za-z0-9._-]", "-", text)[:63])


_ROWS: Final = """
Tesla K80                        | k80     |  11441 | kepler    | 3.7  |  13 |  0 |  149
Tesla P100-SXM2-16GB             | p100    |  16384 | pascal    | 6.0  |  56 |  4 |  300
Tesla V100-SXM2-16GB             | v100    |  16384 | volta     | 7.0  |  80 |  6 |  300
Tesla V100-SXM2-32GB             | v100-32 |  32768 | volta     | 7.0  |  80 |  6 |  300
NVIDIA T4                        | t4      |  16384 | turing    | 7.5  |  40 |  0 |   70
NVIDIA A10                       | a10     |  23028 | ampere    | 8.6  |  72 |  0 |  150
NVIDIA A30                       | a30     |  24576 | ampere    | 8.0  |  56 |  4 |  165
NVIDIA A40                       | a40     |  46068 | ampere    | 8.6  |  84 |  4 |  300
NVIDIA A100-SXM4-40GB            | a100    |  40960 | ampere    | 8.0  | 108 | 12 |  400
NVIDIA A100-SXM4-80GB            | a100-80 |  81920 | ampere    | 8.0  | 108 | 12 |  400
NVIDIA A100-PCIE-40GB            | a100-pcie | 40960 | ampere   | 8.0  | 108 | 12 |  250
NVIDIA A100 80GB PCIe            | a100-80-pcie | 81920 | ampere | 8.0 | 108 | 12 |  300
NVIDIA L4                        | l4      |  23034 | ada-lovelace | 8.9 | 58 | 0 |   72
NVIDIA L40                       | l40     |  46068 | ada-lovelace | 8.9 | 142 | 0 | 300
NVIDIA L40S                      | l40s    |  49152 | ada-lovelace | 8.9 | 142 | 0 | 350
NVIDIA H100 80GB HBM3            | h100    |  81920 | hopper    | 9.0  | 132 | 18 |  700
NVIDIA H100 PCIe                 | h100-pcie | 81559 | hopper   | 9.0  | 114 | 12 |  350
NVIDIA H100 NVL                  | h100-nvl | 95830 | hopper    | 9.0  | 132 | 12 |  400
NVIDIA H200                      | h200    | 143771 | hopper    | 9.0  | 132 | 18 |  700
NVIDIA GH200 480GB               | gh200   |  97871 | hopper    | 9.0  | 132 | 18 |  900
NVIDIA B200                      | b200    | 196608 | blackwell | 10.0 | 148 | 18 | 1000
NVIDIA B300 SXM6 AC              | b300    | 275040 | blackwell | 10.3 | 148 | 18 | 1100
NVIDIA GB200                     | gb200   | 196608 | blackwell | 10.0 | 152 | 18 | 1200
NVIDIA GB300 NVL                 | gb300   | 294912 | blackwell | 10.3 | 152 | 18 | 1400
NVIDIA RTX PRO 6000 Blackwell Server Edition | rtx-pro-6000 | 97887|blackwell| 12.0|188| 0 | 600
"""


def _read(row: str) -> Product:
    title, kind, memory, family, compute, processors, nvlinks, power = map(
        str.strip, row.split("|")
    )
    major, _, minor = compute.partition(".")
    return Product(
        title=title,
        kind=kind,
        memory_mib=int(memory),
        family=family,
        compute=(int(major), int(minor)),
        multiprocessors=int(processors),
        nvlinks=int(nvlinks),
        power_w=int(power),
    )


#: By the short name.
PRODUCTS: Final[Mapping[str, Product]] = {
    product.kind: product for product in map(_read, _ROWS.strip().splitlines())
}
_MAKERS: Final = re.compile(r"^(?:nvidia|tesla)-+")


def _plain(text: str) -> str:
    """``Tesla K80``, ``NVIDIA-Tesla-K80`` and ``k80`` are the same name."""
    text = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    while found := _MAKERS.match(text):
        text = text[found.end() :]
    return text


_BY_NAME: Final[Mapping[str, Product]] = {
    **{_plain(product.title): product for product in PRODUCTS.values()},
    **{product.kind: product for product in PRODUCTS.values()},
}
#: Longest first: ``a100-sxm4-80gb`` is found before ``a100``.
_NAMES: Final = sorted(_BY_NAME, key=lambda name: (-len(name), name))


def product_of(text: str, memory_mib: int = 0) -> Product | None:
    """The product of a name, by its words; None for an unknown one.

    If several products match (``A100``), the memory decides.

    >>> product_of("Tesla K80").kind, product_of("NVIDIA-A100-SXM4-80GB").kind
    ('k80', 'a100-80')
    """
    wanted = _plain(text)
    if found := _BY_NAME.get(wanted):
        return _of_memory(found, memory_mib)
    for name in _NAMES:
        if wanted.startswith(name + "-"):
            return _of_memory(_BY_NAME[name], memory_mib)
    return None


def _of_memory(found: Product, memory_mib: int) -> Product:
    """Another size of the same product, if its memory is much nearer."""
    if not memory_mib or abs(memory_mib - found.memory_mib) <= found.memory_mib // 5:
        return found
    sizes = [p for p in PRODUCTS.values() if p.kind.partition("-")[0] == found.kind]
    return min([found, *sizes], key=lambda product: abs(product.memory_mib - memory_mib))
