"""A plan that makes room for a waiting pod's MIG instance, as a value: its migrations, its cost."""

from __future__ import annotations

import msgspec

from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.pods.pod import Pod


class Relocation(msgspec.Struct, frozen=True, kw_only=True):
    """One pod that is restarted elsewhere. ``gpu_minutes`` is the GPU time since its creation,
    weighted with its share of a GPU; without a checkpoint all of it is lost.
    """

    pod: Pod
    source: MigPlacement
    node_name: str
    devices: Devices
    gpu_minutes: float = 0.0


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The migrations, in order, and the placement of the pod afterwards.

    ``gain`` is the fall of the layout cost by the plan, in memory slices: those that it puts to
    use, less what the layouts lose for later requests. ``is_certain`` is whether the order in which
    the pods are decided does not matter.
    """

    pod: Pod
    node_name: str
    mig_placement: MigPlacement
    moves: tuple[Relocation, ...] = ()
    gain: float = 0.0
    is_certain: bool = True

    @property
    def restarts(self) -> int:
        """The number of pods that are restarted."""
        return len(self.moves)

    @property
    def gpu_minutes(self) -> float:
        """The upper bound of lost GPU-minutes."""
        return sum(move.gpu_minutes for move in self.moves)
