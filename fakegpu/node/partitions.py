"""GPUs that are offered whole and in every part they could be cut into, one beside the other.

What cannot be had at once excludes each other by counters: a GPU has one for each memory slice, one
for its compute slices and one for its media engines, and each part consumes what it takes. So the
scheduler that allocates a part decides how the GPU is cut, and here it is cut as soon as that is
known, and whole again when the claim is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET

from fakegpu.node.hardware import mig_device
from fakegpu.topology.nodetopology import Gpu, MigDevice, NodeTopology
from fakegpu.topology.pools import GpuKind
from scheduler.model import mig

COMPUTE: Final = "compute-slices"
MEDIA: Final = "media-engines"

Json = dict[str, Any]


def board_of(topology: NodeTopology, gpu: Gpu) -> mig.Board | None:
    """The geometry of a GPU that is offered in parts; None where it is not."""
    if gpu.partitionable is not True:
        return None
    return GpuKind(topology.product_of(gpu), topology.memory_of(gpu)).board


def parts(node: str, index: int, board: mig.Board) -> Iterator[tuple[MigDevice, mig.Kind]]:
    """Every instance that could be cut on a GPU."""
    for profile in board.profiles.values():
        for start in profile.starts:
            yield mig_device(node, index, board, profile.name, start), profile.kind


def counter_set(index: int) -> str:
    """The name of a GPU's counters."""
    return f"gpu-{index}"


def counters(board: mig.Board) -> Json:
    """All that a GPU has, which is also what it takes as a whole."""
    slices = {_slice(number): 1 for number in range(board.memory_slices)}
    return _values(slices | {COMPUTE: board.compute_slices, MEDIA: 1})


def consumed(kind: mig.Kind, start: int) -> Json:
    """What an instance takes of its GPU."""
    taken = {_slice(start + number): 1 for number in range(kind.size)} | {COMPUTE: kind.compute}
    return _values(taken | ({MEDIA: 1} if kind.is_media else {}))


def _slice(number: int) -> str:
    return f"memory-slice-{number}"


def _values(amounts: dict[str, int]) -> Json:
    return {name: {"value": str(amount)} for name, amount in amounts.items()}


def cut(node: str, topology: NodeTopology, allocated: frozenset[str]) -> NodeTopology:
    """The topology with the parts cut that are allocated; ``allocated`` are ids in lower case."""
    gpus = []
    for index, gpu in enumerate(topology.gpus):
        board = board_of(topology, gpu)
        if board is not None:
            found = [one for one, _ in parts(node, index, board) if one.id.lower() in allocated]
            if found:
                found.sort(key=lambda one: one.position)
                gpu = msgspec.structs.replace(gpu, mig_devices=tuple(found))
        gpus.append(gpu)
    return msgspec.structs.replace(topology, gpus=tuple(gpus))


def whole(topology: NodeTopology) -> NodeTopology:
    """The inverse of ``cut``; who held a part holds the GPU."""
    gpus = []
    for gpu in topology.gpus:
        if gpu.partitionable is True and gpu.is_cut:
            held = next((one.status for one in gpu.instances if one.status.held_by), gpu.status)
            gpu = msgspec.structs.replace(gpu, mig_devices=UNSET, status=held)
        gpus.append(gpu)
    return msgspec.structs.replace(topology, gpus=tuple(gpus))
