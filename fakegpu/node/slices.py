"""A node's devices as DRA publishes them: the contents of its ResourceSlices.

Names and attributes are the seed operator's: a device is called like its id in lower case, and its
type is ``gpu`` or ``mig``. A failed GPU carries a taint, so that nothing new is allocated and what
runs goes on, as with the device plugin; one that fell off the bus is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

from msgspec import UNSET

from fakegpu import names
from fakegpu.node import partitions
from fakegpu.node.faults import is_fatal
from fakegpu.topology.nodetopology import Gpu, MigDevice, NodeTopology

#: What the API server takes in one slice; fewer devices where they have taints or counters.
DEVICES_MAX: Final = 128
SPECIAL_DEVICES_MAX: Final = 64
COUNTER_SETS_MAX: Final = 8
TEXT_MAX: Final = 64

Json = dict[str, Any]
T = TypeVar("T")


def contents(node: str, topology: NodeTopology) -> tuple[Json, ...]:
    """What each slice of the node's pool says, devices first; nothing where there are none."""
    devices: list[Json] = []
    sets: list[Json] = []
    for index, gpu in enumerate(topology.gpus):
        if gpu.failure is not UNSET and gpu.failure.off_bus:
            continue
        devices += _of_gpu(node, topology, index, gpu)
        board = partitions.board_of(topology, gpu)
        if board is not None:
            name = partitions.counter_set(index)
            sets.append({"name": name, "counters": partitions.counters(board)})
    special = any("taints" in one or "consumesCounters" in one for one in devices)
    most = SPECIAL_DEVICES_MAX if special else DEVICES_MAX
    return (
        *({"devices": some} for some in _parted(devices, most)),
        *({"sharedCounters": some} for some in _parted(sets, COUNTER_SETS_MAX)),
    )


def _of_gpu(node: str, topology: NodeTopology, index: int, gpu: Gpu) -> Iterator[Json]:
    taints = _taints(gpu)
    board = partitions.board_of(topology, gpu)
    if board is not None:
        yield _whole(topology, index, gpu) | _consumes(index, partitions.counters(board)) | taints
        for part, kind in partitions.parts(node, index, board):
            consumed = partitions.consumed(kind, part.position)
            yield _instance(topology, index, gpu, part) | _consumes(index, consumed) | taints
    elif gpu.is_cut:
        for one in gpu.instances:
            yield _instance(topology, index, gpu, one) | taints
    else:
        yield _whole(topology, index, gpu) | taints


def _whole(topology: NodeTopology, index: int, gpu: Gpu) -> Json:
    return _device(topology, gpu, gpu.id, "gpu", topology.memory_of(gpu), {"index": {"int": index}})


def _instance(topology: NodeTopology, index: int, gpu: Gpu, one: MigDevice) -> Json:
    more = {
        "profile": {"string": one.profile},
        "parentUUID": {"string": gpu.id},
        "parentIndex": {"int": index},
    }
    return _device(topology, gpu, one.id, "mig", one.memory, more)


def _device(
    topology: NodeTopology, gpu: Gpu, device_id: str, kind: str, memory_mib: int, more: Json
) -> Json:
    product, domain = topology.product_of(gpu)[:TEXT_MAX], names.DRA_DRIVER
    attributes = {
        "uuid": {"string": device_id},
        "model": {"string": product},
        f"{domain}/type": {"string": kind},
        f"{domain}/uuid": {"string": device_id},
        f"{domain}/productName": {"string": product},
        **more,
    }
    memory = {"value": binary(memory_mib)}
    return {
        "name": device_name(device_id),
        "attributes": attributes,
        "capacity": {"memory": memory},
    }


def device_name(device_id: str) -> str:
    """The name of a device in slices and claims."""
    return device_id.lower()


def binary(memory_mib: int) -> str:
    """MiB as the API server writes such a quantity.

    >>> binary(40960), binary(11441)
    ('40Gi', '11441Mi')
    """
    whole, rest = divmod(memory_mib, 1024)
    return f"{memory_mib}Mi" if rest else f"{whole}Gi"


def _consumes(index: int, consumed: Json) -> Json:
    counter_set = partitions.counter_set(index)
    return {"consumesCounters": [{"counterSet": counter_set, "counters": consumed}]}


def _taints(gpu: Gpu) -> Json:
    if gpu.failure is UNSET or not is_fatal(gpu.failure):
        return {}
    taint = {"key": names.XID_TAINT, "value": str(gpu.failure.xid), "effect": "NoSchedule"}
    return {"taints": [taint]}


def _parted(values: Sequence[T], most: int) -> list[list[T]]:
    return [list(values[at : at + most]) for at in range(0, len(values), most)]
