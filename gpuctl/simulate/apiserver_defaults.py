"""The API server's defaults that affect scheduling.

Missing requests come from limits, the priority from the PriorityClass, and a node's allocatable
from its capacity. For quotas see ``resource_quota``, for LimitRanges ``limit_ranges``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from gpuctl.simulate.manifests import Document, Raw, object_of, text_of

#: The PriorityClasses that every cluster has.
SYSTEM_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
#: The defaults of a node without these resources: the values of the demo's fake nodes. A kubelet
#: always writes all four.
NODE_BASICS: Final = {"cpu": "64", "memory": "512Gi", "ephemeral-storage": "1Ti", "pods": "110"}


class Priorities:
    """The PriorityClasses of the input."""

    def __init__(self, classes: Iterable[Document]) -> None:
        self._values: dict[str, int] = dict(SYSTEM_PRIORITIES)
        self._default = 0
        for document in classes:
            value = document.raw.get("value", 0)
            if isinstance(value, bool) or not isinstance(value, int):
                raise document.error("value", f"{value!r} is not a whole number")
            self._values[document.name] = value
            if document.raw.get("globalDefault") is True:
                self._default = value

    def of(self, spec: Raw, document: Document, prefix: str) -> int:
        """The priority of a new pod."""
        name = text_of(spec.get("priorityClassName"))
        if name and name not in self._values:
            raise document.error(
                f"{prefix}spec.priorityClassName",
                f"the input has no PriorityClass {name}; add it",
            )
        value = self._values[name] if name else self._default
        if spec.get("priority", value) != value:
            raise document.error(
                f"{prefix}spec.priority",
                "is computed by the API server; write priorityClassName and add the PriorityClass",
            )
        return value


def node_with_status(document: Document) -> Document:
    """The node with an allocatable, as its kubelet or the API server would set it."""
    status = object_of(document.raw.get("status"))
    offered = object_of(status.get("allocatable")) or object_of(status.get("capacity"))
    filled = {**status, "allocatable": {**NODE_BASICS, **offered}}
    return Document(place=document.place, raw={**document.raw, "status": filled})


def with_requests(spec: Raw) -> Raw:
    """The pod's spec in which each missing request is set from its limit."""
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
