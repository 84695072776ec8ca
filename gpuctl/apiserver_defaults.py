"""What the API server adds to objects that are created, as far as scheduling reads it.

Requests are filled in from limits, the priority comes from the PriorityClass, a node's
allocatable from its capacity. Quotas are elsewhere (``limits``), and LimitRanges (``limitranges``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gpuctl.manifests import Document, Raw, object_of, text_of

#: What a cluster has without anybody creating it.
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
#: What a node is given that does not say: the figures of the demo's fake nodes. Every kubelet
#: writes all four.
NODE_BASICS: Final = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}


class Priorities:
    """The PriorityClasses of the input."""

    def __init__(self, classes: Iterable[Document]) -> None:
        self._values: dict[str, int] = dict(SYSTEM_PRIORITIES)
        self._default = 0
        for each in classes:
            value = each.raw.get("value", 0)
            if isinstance(value, bool) or not isinstance(value, int):
                raise each.mistake("value", f"{value!r} is not a whole number")
            self._values[each.name] = value
            if each.raw.get("globalDefault") is True:
                self._default = value

    def of(self, spec: Raw, document: Document, prefix: str) -> int:
        """The priority of a pod that is being created."""
        name = text_of(spec.get("priorityClassName"))
        if name and name not in self._values:
            raise document.mistake(
                f"{prefix}spec.priorityClassName",
                f"there is no PriorityClass {name} in the input; add it",
            )
        value = self._values[name] if name else self._default
        if spec.get("priority", value) != value:
            raise document.mistake(
                f"{prefix}spec.priority",
                "is computed by the API server; write priorityClassName and add the PriorityClass",
            )
        return value


def node_with_status(document: Document) -> Document:
    """The node with an allocatable, as its kubelet or the API server would have written it."""
    status = object_of(document.raw.get("status"))
    offered = object_of(status.get("allocatable")) or object_of(status.get("capacity"))
    filled = {**status, "allocatable": {**NODE_BASICS, **offered}}
    return Document(place=document.place, raw={**document.raw, "status": filled})


def with_requests(spec: Raw) -> Raw:
    """The pod's spec with each missing request filled in from its limit."""
    changed = dict(spec)
    for field in ("initContainers", "containers"):
        if isinstance(spec.get(field), list):
            changed[field] = [_filled(container) for container in spec[field]]
    return changed


def _filled(container: Any) -> Any:
    held = object_of(object_of(container).get("resources"))
    limits, requests = object_of(held.get("limits")), object_of(held.get("requests"))
    if not limits.keys() - requests.keys():
        return container
    return {**container, "resources": {**held, "requests": {**limits, **requests}}}
