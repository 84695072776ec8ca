"""The admission query of the webhook, and the scheduler's answer.

Both cross the Unix socket as JSON, ``POST /place/v1``. The answer has the changes and their
reasons; only the webhook writes patches, so a newer scheduler can never edit a pod in a way that
this webhook does not know.

During an upgrade webhook, standby and leader may be of different versions. Both messages have the
``version`` of their sender. A newer version only adds fields, which an older one ignores, and each
new field has a default that means what the older version did. So each side works on the fields
that it knows. Whatever cannot be said this way needs another path.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from scheduler.model.mig.tier_nodes import ANYWHERE, TierNodes

#: The path of a query; it changes when the meaning of a field changes.
PATH = "/place/v1"
#: The version of these messages: 2 added ``version`` and ``mayMap``, 3 ``dra`` and ``mapRequest``.
VERSION: Final = 3
#: The version of a message without the field.
UNSTATED: Final = 1
#: The path of the webhook's heartbeat, every ``ALIVE_S`` seconds (GET, no body).
ALIVE_PATH = "/alive/v1"
ALIVE_S = 5.0

#: A rewrite from nothing adds one device to a container (``gpu-scheduler.io/gpu-memory``).
NOTHING = ""

#: Random bytes in the id of a reservation, which makes it unguessable.
RESERVATION_BYTES: Final = 8
_RESERVATION: Final = re.compile(rf"r-[0-9a-f]{{{2 * RESERVATION_BYTES}}}")

Scope = Literal["ours", "any"]
Numbering = Literal["numbered", "counted", "unknown"]


class AdmissionQuery(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """One pod at admission, byte for byte as the API server sent it."""

    uid: str
    dry_run: bool
    namespace: str
    scope: Scope
    pod: msgspec.Raw
    version: int = UNSTATED


class ResourceRewrite(msgspec.Struct, frozen=True, kw_only=True):
    """One container's resource that is replaced by another tier, 1:1; from ``NOTHING`` one is
    added.
    """

    container: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    init: bool = False


class NodeAssignment(msgspec.Struct, frozen=True):
    """The node for a node name in the pod's map: its real name and whether it is index-assigned.

    ``dra``: its GPUs are DRA devices, which containers number from 0, as where the kind is
    ``counted``.
    """

    node: str | None = None
    kind: Numbering = "unknown"
    dra: bool = False


class AdmissionDecision(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The scheduler's decision for the pod of a query.

    ``known_reservation``: the pod has a reservation that this scheduler made for its namespace
    moments ago. So this is the API server's second call of one admission, and ``rewrites`` are
    those of the first. ``annotate`` is false if the reservation is matched by other means. ``move``
    is the migration that the pod belongs to (``model/crd/migration``). ``where`` are the nodes on
    which the tier was granted, and to which the pod is therefore restricted. ``may_map`` says
    whether the pod's namespace may use maps. ``map_request`` is the number of GPUs that the pod is
    to request, because its map names DRA devices; 0: no request is added.
    """

    rewrites: tuple[ResourceRewrite, ...] = ()
    denied: str | None = None
    reservation: str | None = None
    annotate: bool = True
    known_reservation: bool = False
    node_kinds: dict[str, NodeAssignment] = {}
    warnings: tuple[str, ...] = ()
    move: str | None = None
    where: TierNodes = ANYWHERE
    may_map: bool = True
    map_request: int = 0
    version: int = UNSTATED


class OtherVersions:
    """The versions of the other side that differ from ours; each is logged once."""

    LOGGED_MAX: Final = 8

    def __init__(self) -> None:
        self._known: set[int] = set()

    def is_news(self, version: int) -> bool:
        """Whether a message has a version that was not met before."""
        if version == VERSION or version in self._known or len(self._known) >= self.LOGGED_MAX:
            return False
        self._known.add(version)
        return True


def is_reservation(text: str) -> bool:
    """Whether a text has the format of a reservation's id."""
    return _RESERVATION.fullmatch(text) is not None
