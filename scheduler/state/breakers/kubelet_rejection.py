"""Derives the scope of a kubelet's pod rejection from its reason and message.

A scope selects the pods that avoid a node. It depends only on the pod's equivalence class::

    ""                     all pods
    nvidia.com/gpu         pods that request the resource
    nvidia.com/gpu>=4      pods with a container that requests that many, or more
    nvidia.com/gpu<=1      pods with a container that requests more than the plugin allows
    kind/0a1b...           pods of that equivalence class

Must never: count a failure that the pod itself caused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from scheduler.model.pods.pod import Pod

WHOLE_NODE = ""
AT_LEAST = ">="
AT_MOST = "<="
OUT_OF = "OutOf"
UNEXPECTED = "UnexpectedAdmissionError"
#: Reasons with which a kubelet rejects a pod (``pkg/kubelet/lifecycle``, ``cm/topologymanager``).
KIND_REASONS = frozenset(
    (UNEXPECTED, "TopologyAffinityError", "NodeAffinity", "NodePorts", "NodeName")
)
NODE_REASONS = frozenset(("OutOfpods", "NodeShutdown"))
#: NVIDIA's device plugin when it rejects several shared devices: "... is 1; found 2", or "... is
#: 1".
_MOST = re.compile(r"maximum request size for .{0,40}? is (\d{1,6})\b")
#: The device manager's errors about a plugin that do not name the resource.
_PLUGIN = re.compile(r"device plugin|rpc error")
#: Characters of a resource name: a name that is part of a longer name does not match.
_INSIDE = r"[\w./-]"


class RejectionScope(msgspec.Struct, frozen=True):
    """The pods that a rejection concerns; ``amount`` is the request of one container.

    ``is_stated`` if the node itself states the maximum per container.
    """

    scope: str
    amount: int = 1
    is_stated: bool = False


def is_rejection(reason: str) -> bool:
    """Whether a pod failed because the kubelet rejected it; other failures are caused by the
    pod.
    """
    return reason.startswith(OUT_OF) or reason in KIND_REASONS or reason in NODE_REASONS


def about(pod: Pod, reason: str, message: str) -> RejectionScope | None:
    """The narrowest scope that fits the kubelet's message; None if the rejection does not count."""
    if reason in NODE_REASONS:
        return RejectionScope(WHOLE_NODE)
    if reason.startswith(OUT_OF):
        resource = reason.removeprefix(OUT_OF)
        return _of_resource(pod, resource) if pod.requests.get(resource) else None
    if reason not in KIND_REASONS:
        return None
    named = _device(pod, message) if reason == UNEXPECTED else None
    return RejectionScope(pod.class_id) if named is None else _of_device(pod, named, message)


def _of_device(pod: Pod, named: str, message: str) -> RejectionScope:
    stated = _MOST.search(message)
    if stated is None:
        return _of_resource(pod, named)
    most = int(stated[1])
    if largest_request(pod, named) <= most:
        return RejectionScope(pod.class_id)
    return RejectionScope(f"{named}{AT_MOST}{most}", is_stated=True)


def largest_request(pod: Pod, resource: str) -> int:
    """The largest request of one container of the pod for a resource."""
    return pod.largest.get(resource, pod.requests.get(resource, 0))


def covers(scope: str, pod: Pod) -> bool:
    """Whether a pod avoids a node that is avoided for this scope."""
    if scope in (WHOLE_NODE, pod.class_id):
        return True
    for word, extra in ((AT_LEAST, 0), (AT_MOST, 1)):
        resource, separator, number = scope.partition(word)
        if separator:
            return largest_request(pod, resource) >= int(number) + extra
    return pod.requests.get(scope, 0) > 0


def stated_most(scope: str) -> tuple[str, int] | None:
    """The resource and the maximum per container, if the node states it."""
    resource, separator, number = scope.partition(AT_MOST)
    return (resource, int(number)) if separator else None


def described(scopes: Iterable[str]) -> str:
    """The scopes of one circuit, as text for messages."""
    return " and ".join(sorted({_described(scope) for scope in scopes}))


def _described(scope: str) -> str:
    if scope == WHOLE_NODE:
        return "all pods"
    if scope.startswith("kind/"):
        return "pods with the same requests"
    stated = stated_most(scope)
    if stated is not None:
        return f"pods with more than {stated[1]} {stated[0]} in one container"
    resource, separator, number = scope.partition(AT_LEAST)
    return f"pods with {number} or more {resource}" if separator else f"pods with {scope}"


def _of_resource(pod: Pod, resource: str) -> RejectionScope:
    # Only the amount of devices matters; CPU and memory have no device.
    return RejectionScope(resource, largest_request(pod, resource) if "/" in resource else 1)


def _device(pod: Pod, message: str) -> str | None:
    """The pod's resource that the device manager could not allocate."""
    devices = [one for one, amount in pod.requests.items() if "/" in one and amount > 0]
    for one in devices:
        if re.search(rf"(?<!{_INSIDE}){re.escape(one)}(?!{_INSIDE}*\w)", message):
            return one
    # "GetPreferredAllocation rpc failed ... GPU is lost": it concerns the pod's only device
    # resource.
    return devices[0] if len(devices) == 1 and _PLUGIN.search(message) else None
