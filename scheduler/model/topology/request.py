"""The level of the network topology within which the pods of a group are placed.

A level is the key of a node label; nodes with one value are a domain. Kueue's annotations are read
too; those of gpu-scheduler have precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model import well_known

#: A prefix of 253 characters, a slash and a name of 63; a longer text is no label key.
KEY_LENGTH_MAX: Final = 317
#: The annotations of a pod that are read.
TOPOLOGY_ANNOTATIONS: Final = frozenset(
    (
        well_known.TOPOLOGY_REQUIRED,
        well_known.TOPOLOGY_PREFERRED,
        well_known.KUEUE_TOPOLOGY_REQUIRED,
        well_known.KUEUE_TOPOLOGY_PREFERRED,
    )
)


class TopologyRequest(msgspec.Struct, frozen=True, order=True, cache_hash=True):
    """Label keys; empty where nothing is requested.

    All pods of the group are in one domain of ``required``, and in as few domains of ``preferred``
    as possible.
    """

    required: str = ""
    preferred: str = ""


def topology_request(annotations: Mapping[str, str]) -> TopologyRequest | None:
    """The request in the annotations of a pod; None if there is none."""
    if TOPOLOGY_ANNOTATIONS.isdisjoint(annotations):
        return None
    required = _key(annotations, well_known.TOPOLOGY_REQUIRED, well_known.KUEUE_TOPOLOGY_REQUIRED)
    preferred = _key(
        annotations, well_known.TOPOLOGY_PREFERRED, well_known.KUEUE_TOPOLOGY_PREFERRED
    )
    return TopologyRequest(required, preferred) if required or preferred else None


def _key(annotations: Mapping[str, str], *names: str) -> str:
    """The value of the first of these annotations that has one."""
    values = (annotations.get(name, "").strip() for name in names)
    return next((value for value in values if 0 < len(value) <= KEY_LENGTH_MAX), "")
