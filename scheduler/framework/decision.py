"""The results of a decision. They are values: a rejection is never an exception."""

from __future__ import annotations

import msgspec

from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import Diagnosis


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Bind ``pod`` to ``node_name``.

    ``devices`` are its devices there; ``index`` is its map index, if mapped.
    ``cuda_visible_devices`` is the value for the environment (None: no value), and ``shares`` the
    value per position of a requesting container if they differ. ``notes`` are messages for the
    pod's author.
    """

    pod: Pod
    node_name: str
    devices: Devices = Devices()
    index: int | None = None
    cuda_visible_devices: str | None = None
    shares: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


class PendingPlacement(Placement, frozen=True, kw_only=True):
    """A placement that waits for MIG instances: ``new_instances`` of them do not exist yet.

    The binder requests them before the Binding. All other code treats it as a placement.
    """

    new_instances: tuple[MigPlacement, ...] = ()


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """No node fits, with the reasons. ``node_name`` is the only possible node if a map names
    one.
    """

    pod: Pod
    diagnosis: Diagnosis
    node_name: str = ""


Decision = Placement | PendingPlacement | Rejection
