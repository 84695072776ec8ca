"""The original request of a degraded pod, from the annotation that the webhook wrote.

Any author may write that annotation. It only affects whether a pod may be replaced, never the
request of its replacement, which comes from the owner's template.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

import msgspec

from scheduler.model import limits, resources, well_known
from scheduler.model.dra.pod_claims import NO_CLAIMS
from scheduler.model.mig.tier_nodes import parse_where
from scheduler.model.pods.pod import Container, Pod, Role
from scheduler.model.pods.pod_variants import device_requests, with_containers
from scheduler.model.quantity import QuantityError

_OURS: Final = (
    well_known.FALLBACK,
    well_known.ORIGINAL,
    well_known.TIER_NODES,
    well_known.MEMORY_GIVEN,
)
#: Characters of a record whose requests are kept.
KEPT_LENGTH_MAX: Final = 4096
_SIDES: Final = ("limits", "requests")
Sides = dict[str, dict[str, str | int | float]]
#: Container name -> its requests; its values are not nested.
_SIDES_OF: Final = msgspec.json.Decoder(dict[str, Sides])


def with_original_request(pod: Pod) -> Pod | None:
    """The pod with its original request, without a node; None without the annotation.

    The annotation has the devices of each container whose tier was changed.
    """
    if not pod.is_degraded:
        return None
    record = _record(pod.annotations[well_known.ORIGINAL])
    if not record or record.keys().isdisjoint(c.name for c in pod.containers):
        return None
    containers = tuple(_with_record(container, record) for container in pod.containers)
    return with_containers(unplaced(pod), containers)


def original_gpu_requests(pod: Pod) -> Mapping[str, int] | None:
    """The GPUs and MIG instances that a degraded pod requested first; None if they are unknown.

    Pods with equal containers and records share the answer; a record of more than KEPT_LENGTH_MAX
    characters is not read.
    """
    text = pod.annotations[well_known.ORIGINAL] if pod.is_degraded else ""
    if not text or len(text) > KEPT_LENGTH_MAX:
        return None
    containers = tuple(
        (one.name, one.role, tuple(sorted(one.devices.items()))) for one in pod.containers
    )
    return _kept_requests(text, containers)


@lru_cache(maxsize=1024)
def _kept_requests(
    text: str, containers: tuple[tuple[str, Role, tuple[tuple[str, int], ...]], ...]
) -> Mapping[str, int] | None:
    record = _record(text)
    if record.keys().isdisjoint(name for name, _, _ in containers):
        return None
    every = (
        Container(name=name, role=role, devices=dict(devices)) for name, role, devices in containers
    )
    return MappingProxyType(device_requests(tuple(_with_record(one, record) for one in every)))


def unplaced(pod: Pod) -> Pod:
    """The pod as its owner would recreate it: without a node and without our annotations.

    Its tier is kept: ``with_original_request`` restores that as well.
    """
    given = memory_given(pod)
    bare = parse_where(pod.annotations.get(well_known.TIER_NODES, "")).off(pod)
    if given:
        bare = with_containers(
            bare, tuple(_without_memory_device(one, given) for one in bare.containers)
        )
    kept = {
        key: value
        for key, value in pod.annotations.items()
        if key not in _OURS and not well_known.is_protected(key)
    }
    # The claim for its extended resources goes with the pod.
    claims = msgspec.structs.replace(bare.resource_claims, extended="")
    return msgspec.structs.replace(
        bare,
        node_name="",
        nominated_node="",
        annotations=kept,
        resource_claims=claims or NO_CLAIMS,
    )


def memory_given(pod: Pod) -> dict[str, str]:
    """Container -> the device that it got for its memory request (see the webhook)."""
    text = pod.annotations.get(well_known.MEMORY_GIVEN, "")
    if len(text) > limits.MEMORY_LENGTH_MAX:
        return {}
    parts = (part.partition("=") for part in text.split(",") if "=" in part)
    given = {name: well_known.mig_resource(profile) for name, _, profile in parts}
    by_name = {one.name: one.devices for one in pod.containers}
    return {name: device for name, device in given.items() if by_name.get(name) == {device: 1}}


def _without_memory_device(container: Container, given: dict[str, str]) -> Container:
    return msgspec.structs.replace(container, devices={}) if container.name in given else container


def _with_record(container: Container, record: dict[str, dict[str, int]]) -> Container:
    devices = record.get(container.name)
    return container if devices is None else msgspec.structs.replace(container, devices=devices)


def _record(text: str) -> dict[str, dict[str, int]]:
    """Container -> devices; empty if the text is not a record."""
    if len(text) > limits.RECORD_LENGTH_MAX:
        return {}
    try:
        record = {name: _devices(one) for name, one in _SIDES_OF.decode(text).items()}
    except (msgspec.MsgspecError, UnicodeError, QuantityError):
        return {}
    counts = (count for devices in record.values() for count in devices.values())
    return record if all(count <= limits.POD_DEVICES_MAX for count in counts) else {}


def _devices(sides: Sides) -> dict[str, int]:
    merged = {
        resource: amount for side in _SIDES for resource, amount in sides.get(side, {}).items()
    }
    return {
        resource: count
        for resource, count in resources.amounts(merged).items()
        if well_known.is_gpu_device(resource) and count > 0
    }
