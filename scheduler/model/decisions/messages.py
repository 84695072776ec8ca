"""The webhook's queries for the aggregated decisions API, and the scheduler's answers.

They cross the Unix socket as JSON. A standby forwards ``POST /decisions/v1`` to the leader. The
answer has only what readers of one namespace may know; the webhook adds the shapes of the API.
During an upgrade both sides may be of different versions: a newer one only adds fields.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

#: The API group, as the API server knows it.
GROUP: Final = "decisions.gpu-scheduler.io"
VERSION: Final = "v1alpha1"
#: The name of the APIService, which the chart creates.
API_SERVICE: Final = f"{VERSION}.{GROUP}"

#: The path of a query; it changes when the meaning of a field changes.
PATH: Final = "/decisions/v1"
#: The status of an answer that has only ``retry_after_s``.
BUSY: Final = 503
#: The path of the front proxy's authority (GET, no body).
FRONT_PROXY_PATH: Final = "/front-proxy/v1"

#: Of a decision without its explanation.
NO_ANSWER: Final = msgspec.Raw(b"null")

State = Literal["Pending", "Scheduled"]


class _Message(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Encoded without empty fields."""


class DecisionsQuery(_Message, frozen=True, kw_only=True):
    """One pod of a namespace, or all of its pods."""

    namespace: str
    pod: str = ""


class PodDecision(_Message, frozen=True, kw_only=True):
    """The last decision about a pod that exists; ``created`` is the pod's timestamp.

    ``reason`` has the codes of a rejection. ``answer`` is the whole explanation (``PodDecisions``
    of the decisions API), for one pod only.
    """

    pod: str
    uid: str
    state: State
    created: str = ""
    reason: str = ""
    node: str = ""
    message: str = ""
    answer: msgspec.Raw = NO_ANSWER


class NamespaceAnswer(_Message, frozen=True, kw_only=True):
    """The decisions about the pods of a namespace by name; ``left_out`` counts the others.

    With ``retry_after_s`` the leader is busy, and answers a query after so many seconds.
    """

    decisions: tuple[PodDecision, ...] = ()
    left_out: int = 0
    retry_after_s: int = 0


class FrontProxy(_Message, frozen=True, kw_only=True):
    """The clients that may proxy for users: ``authority`` (PEM) signed their certificates.

    Without ``names`` every certificate of the authority is accepted, else those common names.
    """

    authority: str
    names: tuple[str, ...] = ()
