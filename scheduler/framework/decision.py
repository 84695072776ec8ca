"""What a decision can be. Decisions are values: expected "no" is never an exception."""

from __future__ import annotations

import msgspec

from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.pods.pod import Pod
from scheduler.model.reason import Diagnosis


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Bind ``pod`` to ``node_name``.

    ``devices`` is what it gets there; ``index`` its map index, if mapped;
    ``cuda_visible_devices`` the value for the environment (None: nothing to say) and
    ``shares`` the value per position of a requesting container where they differ;
    ``notes`` are sentences the pod's author should read.
    """

    pod: Pod
    node_name: str
    devices: Devices = Devices()
    index: int | None = None
    cuda_visible_devices: str | None = None
    shares: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()


class PendingPlacement(Placement, frozen=True, kw_only=True):
    """A placement that has to wait for its MIG instances: ``fresh`` of them do not exist yet.

    Whoever binds asks for them first; for everybody else it holds what a placement holds.
    """

    fresh: tuple[MigPlacement, ...] = ()


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """No node will do, and why. ``node_name`` is the only node that could, where a map names it."""

    pod: Pod
    diagnosis: Diagnosis
    node_name: str = ""


Decision = Placement | PendingPlacement | Rejection
