"""Warnings about annotations that nearly are those of gpu-scheduler and are ignored.

An annotation with our prefix that no program reads, or one close to a name that users write.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Final

from scheduler.model import well_known
from scheduler.model.gpu.gpu_map import shown
from scheduler.model.pods.written_annotations import is_known, nearest

#: From this similarity a name below our prefix is a typing error.
SIMILAR_NAME: Final = 0.5
WARNINGS_MAX: Final = 4
#: Keys of one pod that are compared. A comparison costs some 0.1 ms, and the API server checks the
#: size of annotations only after the webhook.
COMPARED_MAX: Final = 32
_LENGTH_MAX: Final = 100
_SHOWN_MAX: Final = 60


def warnings(keys: Iterable[str]) -> list[str]:
    """At most WARNINGS_MAX sentences for the annotation keys of one pod."""
    near = (key for key in keys if "gpu" in key and len(key) <= _LENGTH_MAX)
    texts = (_warning(key) for key in islice(near, COMPARED_MAX))
    return list(islice((text for text in texts if text is not None), WARNINGS_MAX))


@lru_cache(maxsize=1024)
def _warning(key: str) -> str | None:
    if is_known(key):
        return None
    meant = nearest(key, SIMILAR_NAME)
    if not meant and not key.startswith(well_known.PREFIX):
        return None
    hint = f"; did you mean {meant}?" if meant else ""
    return f"annotation {shown(key, _SHOWN_MAX)} is unknown and ignored{hint}"
