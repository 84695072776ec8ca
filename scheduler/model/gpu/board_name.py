"""The short name of a board."""

from __future__ import annotations

import re
from typing import Final

_VENDORS: Final = frozenset(("nvidia", "tesla", "geforce", "quadro", "graphics"))
#: Lines of boards whose number alone is ambiguous.
_LINES: Final = frozenset(("rtx", "gtx", "dgx"))
_GIGABYTES: Final = re.compile(r"(\d+)GB")


def board(product: str, memory_mib: int) -> str:
    """The short name of a board, with the memory of one in GiB.

    >>> board("NVIDIA-H100-80GB-HBM3", 81559), board("NVIDIA-A100-SXM4-40GB", 0)
    ('H100 80G', 'A100 40G')
    >>> board("NVIDIA-RTX-6000-Ada-Generation", 49140), board("unknown", 0)
    ('RTX 6000 48G', 'unknown')
    """
    words = [word for word in re.split(r"[-_ ]+", product) if word.lower() not in _VENDORS]
    if not words:
        return product
    name = words[0]
    if name.lower() in _LINES and len(words) > 1:
        name = f"{name} {words[1]}"
    if memory_mib:
        return f"{name} {round(memory_mib / 1024)}G"
    found = _GIGABYTES.search(product)
    return f"{name} {found[1]}G" if found and "-MIG-" not in product else name
