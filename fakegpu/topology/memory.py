"""Amounts of GPU memory in user input."""

from __future__ import annotations

import re
from typing import Final

from fakegpu.topology.invalid import Invalid

MIB_MAX: Final = 2**22
_TEXT: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,3}))?\s*(GB|GiB|Gi|MB|MiB|Mi)?")


def parse_mib(value: int | str, path: str) -> int:
    """MiB; a bare number is in MiB.

    A vendor's GB are 1024 MiB each (an "80GB" card shows 81920 MiB), so GB and GiB are the same.

    >>> parse_mib("12GB", ""), parse_mib("1.5 GiB", ""), parse_mib("11441MiB", ""), parse_mib(7, "")
    (12288, 1536, 11441, 7)
    """
    text = str(value).strip()
    found = _TEXT.fullmatch(text)
    if found is None:
        raise Invalid(path, f"expected MiB as a number, or a text such as 40GB, got {text!r}")
    unit = 1024 if (found[3] or "M").startswith("G") else 1
    thousandths = int((found[2] or "").ljust(3, "0"))
    mib = int(found[1]) * unit + thousandths * unit // 1000
    if not 0 < mib <= MIB_MAX:
        raise Invalid(path, f"expected between 1 MiB and {MIB_MAX} MiB, got {text!r}")
    return mib
