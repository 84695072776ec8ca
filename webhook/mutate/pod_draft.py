"""The outcome of a review, and the draft from which it is built.

A draft is the only mutable object here: it exists for one review and holds the changed pod, the log
lines and the warnings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from scheduler.model.gpu.gpu_map import shown
from webhook.mutate import raw_pod
from webhook.mutate.json_patch import Operation

# Names are checked only after admission; long or unusual ones are cut and escaped.
_NAME_SHOWN_MAX: Final = 253

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403


class Denial(msgspec.Struct, frozen=True):
    """A rejected pod: the HTTP code and the message for the user."""

    code: int
    message: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one review; without a denial the pod is allowed.

    ``pod`` is its namespace and name; ``*`` is the suffix that the API server generates.
    """

    patch: Sequence[Operation] = ()
    warnings: Sequence[str] = ()
    denial: Denial | None = None
    log: Sequence[str] = ()
    audit: Mapping[str, str] = {}
    pod: str = ""


class Refused(Exception):
    """Ends a review with a denial."""

    def __init__(self, message: str, code: int = BAD_REQUEST) -> None:
        super().__init__(message)
        self.denial = Denial(code, message)


class PodDraft:
    """A pod with its changes, and the log lines and warnings about them."""

    def __init__(self, pod: raw_pod.RawPod, namespace: str) -> None:
        self.pod = pod
        self.namespace = namespace
        self.warnings: list[str] = []
        self.log: list[str] = []
        self.audit: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The pod's name, or its generateName."""
        meta = raw_pod.metadata(self.pod)
        name = raw_pod.text(meta.get("name")) or raw_pod.text(meta.get("generateName"))
        return shown(name, _NAME_SHOWN_MAX)

    @property
    def key(self) -> str:
        """``namespace/name``; a pod of a controller has no namespace of its own yet."""
        return f"{self.namespace}/{self.name}"

    @property
    def reference(self) -> str:
        """``namespace/name``, or ``namespace/generateName*``."""
        has_name = bool(raw_pod.text(raw_pod.metadata(self.pod).get("name")))
        return self.key if has_name else f"{self.key}*"

    def annotate(self, changes: Mapping[str, Any]) -> None:
        """Set these annotations; None removes one."""
        self.pod = raw_pod.with_annotations(self.pod, changes)
