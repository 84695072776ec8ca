"""What a review gives back, and the draft it is built on.

A draft is the only mutable thing here: it lives for one review and holds the changed pod and
everything that people are told about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.model.gpu_map import shown
from webhook.mutate import raw_pod
from webhook.mutate.json_patch import Operation

# Names are checked only after admission; longer or stranger ones are cut and escaped.
_NAME_SHOWN_MAX: Final = 253

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403


class Denial(msgspec.Struct, frozen=True):
    """A refused pod: the HTTP code and the sentence that the user reads."""

    code: int
    message: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer to one review; without a denial the pod is allowed."""

    patch: Sequence[Operation] = ()
    warnings: Sequence[str] = ()
    denial: Denial | None = None
    log: Sequence[str] = ()
    audit: Mapping[str, str] = {}


class Refused(Exception):
    """Ends a review with a denial."""

    def __init__(self, message: str, code: int = BAD_REQUEST) -> None:
        super().__init__(message)
        self.denial = Denial(code, message)


class PodDraft:
    """A pod that is being changed, with the log lines and warnings collected on the way."""

    def __init__(self, pod: raw_pod.RawPod, namespace: str) -> None:
        self.pod = pod
        self.namespace = namespace
        self.warnings: list[str] = []
        self.log: list[str] = []
        self.audit: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The pod's name, or what its name will begin with."""
        meta = raw_pod.metadata(self.pod)
        name = raw_pod.text(meta.get("name")) or raw_pod.text(meta.get("generateName"))
        return shown(name, _NAME_SHOWN_MAX)

    @property
    def key(self) -> str:
        """``namespace/name``; a pod of a controller has no namespace of its own yet."""
        return f"{self.namespace}/{self.name}"

    def annotate(self, changes: Mapping[str, Any]) -> None:
        """Set these annotations; None takes one away."""
        self.pod = raw_pod.with_annotations(self.pod, changes)
