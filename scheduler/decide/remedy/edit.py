"""One change that a user or an administrator can make, and the pod after it.

An edit is about the pod's template, as the user wrote it; the pod of a ``Trial`` is the same pod
with the edit, as the API server would have it after admission.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.pods.pod_variants import with_containers
from scheduler.model.quantity import format_value


class EditKind(enum.Enum):
    """What is edited; ``field`` and ``value`` of an ``Edit`` mean what stands here."""

    REQUEST = "request"  # the resource, and the pod's amount of it; 0 removes the request
    REPLACE = "replace"  # the requested resource, and the one to request instead
    ANNOTATE = "annotate"  # an annotation, and its value; empty removes it
    LABEL = "label"  # a label of the pod to remove, and its value
    TOLERATE = "tolerate"  # the key of a taint, and its ``value:effect``
    SELECTOR = "selector"  # a label of spec.nodeSelector to remove, and its value
    REMOVE = "remove"  # the path of a field of the pod to remove
    SPREAD = "spread"  # spec.topologySpreadConstraints, and the value of whenUnsatisfiable
    UNCORDON = "uncordon"  # a node
    DELETE_POD = "deletePod"  # namespace/name of another pod


class Edit(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One change; ``text`` says it in words."""

    kind: EditKind
    field: str
    value: str = ""
    text: str


class Trial(msgspec.Struct, frozen=True):
    """Edits to try out: the pod with them, without the pods in ``deleted`` (uid, node name)."""

    edits: tuple[Edit, ...]
    pod: Pod
    deleted: tuple[tuple[str, str], ...] = ()


def request(resource: str, amount: int, *, had: int = 0) -> Edit:
    """The pod requests this amount; ``had`` is what it requests now."""
    shown = format_value(resource, amount)
    instead = f" instead of {format_value(resource, had)}" if had else ""
    text = f"request {shown} {resource}{instead}" if amount else f"remove the request of {resource}"
    return Edit(kind=EditKind.REQUEST, field=resource, value=shown, text=text)


def with_requests(pod: Pod, amounts: Mapping[str, int]) -> Pod | None:
    """The pod with these effective requests; None if several containers share a device request."""
    devices = {one: count for one, count in amounts.items() if well_known.is_gpu_device(one)}
    requests = {**pod.requests, **{one: n for one, n in amounts.items() if one not in devices}}
    changed = msgspec.structs.replace(pod, requests=requests)
    if not devices:
        return changed
    for resource in devices:
        if sum(resource in one.devices for one in pod.containers) != 1:
            return None
    containers = tuple(
        msgspec.structs.replace(
            one,
            devices={
                resource: devices.get(resource, count)
                for resource, count in one.devices.items()
                if devices.get(resource, count)
            },
        )
        for one in pod.containers
    )
    return with_containers(changed, containers)
