"""What the webhook asks its scheduler about a pod, and what the scheduler answers.

Both cross the Unix socket as JSON, ``POST /place/v1``. The answer says what to change and why;
only the webhook writes patches, so a scheduler of a newer version can never edit a pod in a
way that this webhook does not know.
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from scheduler.model.mig.tier_nodes import ANYWHERE, TierNodes

#: Where a question is posted; the number changes when the meaning of a field does.
PATH = "/place/v1"
#: Where the webhook says every ``ALIVE_S`` seconds that it serves (GET, no body).
ALIVE_PATH = "/alive/v1"
ALIVE_S = 5.0

#: A rewrite from nothing adds one device to a container (``gpu-scheduler.io/gpu-memory``).
NOTHING = ""

#: Random bytes in the id of a reservation: nobody can guess one.
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


class ResourceRewrite(msgspec.Struct, frozen=True, kw_only=True):
    """One container's resource that becomes another tier, 1:1; from ``NOTHING`` it is one."""

    container: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    init: bool = False


class NodeAssignment(msgspec.Struct, frozen=True):
    """What a node token of the pod's map is now: its real name and who numbers its devices."""

    node: str | None = None
    kind: Numbering = "unknown"


class AdmissionDecision(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """What the scheduler decided for the pod of a question.

    ``known_reservation``: the pod carries a reservation that this scheduler gave to its namespace
    moments ago, so this is the API server's second call for one admission, and ``rewrites`` are
    those of the first. ``annotate`` is false where the reservation is met by other means. ``move``
    is the ticket that the pod takes (``model/crd/migration``); ``where`` are the nodes on which it
    was given its tier, and to which it is therefore bound. ``may_map`` is whether the pod's
    namespace may use maps."""

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


def is_reservation(text: str) -> bool:
    """Whether a text has the shape of a reservation's id."""
    return _RESERVATION.fullmatch(text) is not None
