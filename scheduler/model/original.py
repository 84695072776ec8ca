"""A degraded pod as its author asked for it, read from the record that the webhook left on it.

The record is an annotation that anybody may write. It only ever says what a pod may be replaced
for, never what its replacement gets: that comes from the owner's template.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler.model import names, resources
from scheduler.model.pod import Container, Pod
from scheduler.model.quantity import QuantityError
from scheduler.model.swap import device_requests

_OURS: Final = (names.FALLBACK, names.ORIGINAL)
_SIDES: Final = ("limits", "requests")


def is_degraded(pod: Pod) -> bool:
    """Whether the pod carries a record of another tier than it has."""
    return names.ORIGINAL in pod.annotations and names.FALLBACK in pod.annotations


def as_asked(pod: Pod) -> Pod | None:
    """The pod as it came before its tier was changed, without a node; None without a record.

    The record holds the devices of each container whose tier was changed.
    """
    if not is_degraded(pod):
        return None
    record = _record(pod.annotations[names.ORIGINAL])
    if not record or record.keys().isdisjoint(c.name for c in pod.containers):
        return None
    containers = tuple(_asked(container, record) for container in pod.containers)
    requests = {r: n for r, n in pod.requests.items() if not names.is_gpu_device(r)}
    resources.add(requests, device_requests(containers))
    return msgspec.structs.replace(unplaced(pod), containers=containers, requests=requests)


def unplaced(pod: Pod) -> Pod:
    """The pod as its owner would make it again: no node, and nothing that we wrote on it."""
    kept = {
        key: value
        for key, value in pod.annotations.items()
        if key not in _OURS and not names.is_protected(key)
    }
    return msgspec.structs.replace(pod, node_name="", nominated_node="", annotations=kept)


def _asked(container: Container, record: dict[str, dict[str, int]]) -> Container:
    devices = record.get(container.name)
    return container if devices is None else msgspec.structs.replace(container, devices=devices)


def _record(text: str) -> dict[str, dict[str, int]]:
    """Container -> devices; empty where the text is no record."""
    try:
        sides = msgspec.json.decode(text, type=dict[str, dict[str, dict[str, Any]]])
        return {name: _devices(one) for name, one in sides.items()}
    except (msgspec.MsgspecError, QuantityError, TypeError):
        return {}


def _devices(sides: dict[str, dict[str, Any]]) -> dict[str, int]:
    merged = {
        resource: amount for side in _SIDES for resource, amount in sides.get(side, {}).items()
    }
    return {
        resource: count
        for resource, count in resources.amounts(merged).items()
        if names.is_gpu_device(resource) and count > 0
    }
