"""The annotations that users write on pods, and which of them a misspelt key probably means."""

from __future__ import annotations

import difflib
from typing import Final

from scheduler.model import well_known

WRITTEN: Final = (
    well_known.MAP,
    well_known.CUDA_MODE,
    well_known.MIG_FALLBACK,
    well_known.MEMORY_FLOOR,
    well_known.WANTED_MEMORY,
    well_known.RESTORE,
    well_known.PREFER,
    well_known.GROUP_MIN,
    well_known.RECLAIMABLE,
    well_known.TOPOLOGY_REQUIRED,
    well_known.TOPOLOGY_PREFERRED,
)
#: What a copied pod may have from an earlier admission, besides the protected keys.
RECORDS: Final = (well_known.TIER_NODES, well_known.MEMORY_GIVEN, well_known.MAP_REQUEST)
_KNOWN: Final = frozenset(
    (*WRITTEN, *RECORDS, *well_known.BINDING_KEYS, *well_known.ADMISSION_KEYS)
)
#: From this similarity of whole keys another domain is a typing error.
SIMILAR: Final = 0.85


def is_known(key: str) -> bool:
    """Whether a program of gpu-scheduler reads or writes it."""
    return key in _KNOWN or well_known.is_protected(key)


def nearest(key: str, similar_name: float) -> str:
    """The annotation that was probably meant; empty if none is similar.

    ``similar_name`` is the similarity, from 0 to 1, from which names below our prefix are similar.
    """
    name = key.removeprefix(well_known.PREFIX)
    if name == key:
        return next(iter(difflib.get_close_matches(key, WRITTEN, 1, SIMILAR)), "")
    names = [one.removeprefix(well_known.PREFIX) for one in WRITTEN]
    near = difflib.get_close_matches(name, names, 1, similar_name)
    return WRITTEN[names.index(near[0])] if near else ""
