"""PersistentVolumeClaims, as far as decisions read them."""

from __future__ import annotations

import msgspec

from scheduler.model.pods.pod_affinity import PodSelector

READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class Claim(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """One PersistentVolumeClaim.

    ``request`` is in bytes; ``selector`` is None where any volume will do; ``is_completed`` where
    the binding to ``volume_name`` is complete. ``selected_node`` is what a scheduler wrote for the
    provisioner; None where there is no such annotation. ``owner_uid`` is that of the controlling
    pod of an ephemeral volume. ``unread`` says what of it cannot be read.
    """

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    class_name: str = ""
    access_modes: tuple[str, ...] = ()
    mode: str = "Filesystem"
    attributes_class: str = ""
    selector: PodSelector | None = None
    request: int | None = None
    volume_name: str = ""
    is_completed: bool = False
    selected_node: str | None = None
    phase: str = ""
    is_deleting: bool = False
    owner_uid: str = ""
    unread: str = ""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_bound(self) -> bool:
        """Whether the PV controller has completed the binding."""
        return bool(self.volume_name) and self.is_completed

    @property
    def is_for_one_pod(self) -> bool:
        """Whether only one pod at a time may use it."""
        return READ_WRITE_ONCE_POD in self.access_modes
