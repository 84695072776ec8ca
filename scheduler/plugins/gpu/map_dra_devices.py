"""The devices of a map's line on a node whose GPUs are DRA devices.

A pod gets them by a claim: for its request of ``nvidia.com/gpu``, or by claims of its own. This
file says whether the devices exist and are free; ``plugins/dynamic_resources`` allocates them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.model import well_known
from scheduler.model.dra.device import NO_EXECUTE, NO_SCHEDULE, Device, DeviceId
from scheduler.model.dra.gpu_indexes import GpuIndexes
from scheduler.model.dra.resource_slice import PoolId
from scheduler.model.gpu.gpu_map import MapEntry
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason import Reason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.plugins.gpu.codes import (
    DEVICE_FAILED,
    DEVICE_HELD,
    has_mig,
    without_gpu,
)
from scheduler.state.dra.pool import Pool
from scheduler.state.dra.store import DraStore
from scheduler.state.node_info import NodeInfo

DEVICE_INDEX_UNKNOWN = ReasonCode(
    name="DEVICE_INDEX_UNKNOWN",
    meaning="the GPUs of the node are DRA devices, and their indexes are unknown",
    lifted_by=(RequeueCause.RESOURCE_DEVICES, RequeueCause.NODE),
    stage="GPUMap",
    next_step="read the devices: kubectl get resourceslices -o yaml; for a driver other than"
    " NVIDIA's set dra.indexAttributes in the configuration",
    words=(r"node\(s\) whose DRA devices have no index",),
)
MAP_WITHOUT_CLAIM = ReasonCode(
    name="MAP_WITHOUT_CLAIM",
    meaning="the GPUs of the node are DRA devices, which a pod gets by a request only",
    lifted_by=(RequeueCause.POD, RequeueCause.RESOURCE_DEVICES, RequeueCause.NODE),
    stage="GPUMap",
    next_step="request nvidia.com/gpu in a container, as many as the line names; the webhook does"
    " so for new pods",
    words=(r"node\(s\) whose GPUs are DRA devices",),
    condition=ConditionReason.INVALID_MAP,
)

#: Pods of a claim in a reason.
USERS_SHOWN: Final = 2
_HARD: Final = (NO_SCHEDULE, NO_EXECUTE)


def dra_device_problem(
    pod: Pod, entry: MapEntry, node_info: NodeInfo, gpus: GpuIndexes, store: DraStore
) -> Reason | None:
    """The reason why the line's devices are not available on the node, or None."""
    node = node_info.node
    assert node is not None
    if gpus.problem:
        text = f"node(s) whose DRA devices have no index ({_one_line(gpus.problem)})"
        return Reason(code=DEVICE_INDEX_UNKNOWN, text=text, resolvable=False)
    for number in entry.devices:
        if number not in gpus.devices:
            return without_gpu(number, len(gpus.devices))
        if gpus.devices[number] is None:
            return has_mig(number)
    if not _gets_devices(pod, store):
        count = len(entry.devices)
        text = (
            "node(s) whose GPUs are DRA devices give none to a pod that requests none; request"
            f" {well_known.GPU}: {count}"
        )
        return Reason(code=MAP_WITHOUT_CLAIM, text=text, resolvable=False)
    return _not_free(pod, entry, node, gpus, store)


def _gets_devices(pod: Pod, store: DraStore) -> bool:
    """Whether the pod may get devices: by its claims, or by a resource that has a DeviceClass.

    An entry of the pod may need no claim, and a request may be for none.
    """
    return bool(
        pod.gpu_requests
        or any(
            one.claim_name or one.created_name or not one.has_status
            for one in pod.resource_claims.claims
        )
        or any(
            amount > 0 and resource in store.extended.classes
            for resource, amount in pod.requests.items()
        )
    )


def _not_free(
    pod: Pod, entry: MapEntry, node: Node, gpus: GpuIndexes, store: DraStore
) -> Reason | None:
    """The first device that is in use by a claim of another pod, or tainted."""
    own = frozenset(f"{pod.namespace}/{name}" for name in pod.resource_claims.names)
    pools = {pool.id: pool for pool in store.pools.on_node(node.name, node.labels)}
    for number in entry.devices:
        device_id = gpus.devices[number]
        assert device_id is not None
        pool = pools[PoolId(device_id.driver, device_id.pool)]
        device = pool.by_name[device_id.device]
        for used in _excluding(device, pool, store):
            holder = next((key for key in store.holders.of(used) if key not in own), None)
            if holder is not None:
                return _held(number, used, device_id, _named(holder, pod, store))
        if not pod.resource_claims.claims:  # else the claim may tolerate it
            for taint in store.taints(device):
                if taint.effect in _HARD:
                    value = f"={taint.value}" if taint.value else ""
                    text = f"node(s) whose GPU {number} has the taint {taint.key}{value}:"
                    return Reason(code=DEVICE_FAILED, text=text + taint.effect, resolvable=False)
    return None


def _excluding(device: Device, pool: Pool, store: DraStore) -> Iterator[DeviceId]:
    """The devices whose use excludes this one: itself, and those that have its counters."""
    if not device.allow_multiple:  # else the allocator knows what is left of it
        yield device.id
    left = store.in_use.free_counters(pool)
    short = {
        use.counter_set
        for use in device.consumes
        for name, value in use.counters.items()
        if value > left[use.counter_set, name]
    }
    for name in store.in_use.of_pool(pool.id) if short else ():
        other = pool.by_name.get(name)
        if other is not None and any(use.counter_set in short for use in other.consumes):
            yield other.id


def _held(number: int, used: DeviceId, wanted: DeviceId, holder: str) -> Reason:
    part = "" if used == wanted else f" (device {used.device})"
    text = f"node(s) where GPU {number} is held by {holder}{part}"
    return Reason(code=DEVICE_HELD, text=text)


def _named(key: str, pod: Pod, store: DraStore) -> str:
    """A claim, with its pods where they are in the pod's namespace."""
    claim = store.claim(key)
    if claim is None:
        return "a claim that is being created"
    if claim.namespace != pod.namespace:
        return f"a claim in namespace {claim.namespace}"
    users = " and ".join([one.name for one in claim.reserved_for if one.is_pod][:USERS_SHOWN])
    return f"claim {claim.name}" + (f" of pod {users}" if users else "")


def _one_line(text: str) -> str:
    """A countable text: readers split the list of reasons at commas."""
    return text.replace(",", "")[:200]
