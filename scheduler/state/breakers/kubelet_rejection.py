"""What a kubelet's refusal of a pod is about, read from the reason and the message it writes.

A scope says for which pods a node is avoided. It depends on nothing but the pod's kind::

    ""                     all pods
    nvidia.com/gpu         pods that ask for the resource
    nvidia.com/gpu>=4      pods of which one container asks for that many, or more
    nvidia.com/gpu<=1      pods of which one container asks for more than the plugin gives to one
    kind/0a1b...           pods of that kind

Must never: blame a node for what a pod brought upon itself.
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
#: Why a kubelet may refuse a pod (``pkg/kubelet/lifecycle``, ``cm/topologymanager``).
KIND_REASONS = frozenset(
    (UNEXPECTED, "TopologyAffinityError", "NodeAffinity", "NodePorts", "NodeName")
)
NODE_REASONS = frozenset(("OutOfpods", "NodeShutdown"))
#: NVIDIA's device plugin where it refuses shared devices: "... is 1; found 2", or "... is 1".
_MOST = re.compile(r"maximum request size for .{0,40}? is (\d{1,6})\b")
#: What the device manager says of a plugin without naming the resource.
_PLUGIN = re.compile(r"device plugin|rpc error")
#: What stands inside a resource's name: a name that is a part of another one is not meant.
_INSIDE = r"[\w./-]"


class RejectionScope(msgspec.Struct, frozen=True):
    """Whom a refusal is about; ``amount`` is what one container asked for of the resource.

    ``is_stated`` where the node itself says how much one container may ask for.
    """

    scope: str
    amount: int = 1
    is_stated: bool = False


def is_refusal(reason: str) -> bool:
    """Whether a pod failed because its node refused it; anything else is the pod's business."""
    return reason.startswith(OUT_OF) or reason in KIND_REASONS or reason in NODE_REASONS


def about(pod: Pod, reason: str, message: str) -> RejectionScope | None:
    """As few pods as the kubelet's words allow; None for nobody."""
    if reason in NODE_REASONS:
        return RejectionScope(WHOLE_NODE)
    if reason.startswith(OUT_OF):
        resource = reason.removeprefix(OUT_OF)
        return _of_resource(pod, resource) if pod.requests.get(resource) else None
    if reason not in KIND_REASONS:
        return None
    named = _device(pod, message) if reason == UNEXPECTED else None
    return RejectionScope(pod.kind_id) if named is None else _of_device(pod, named, message)


def _of_device(pod: Pod, named: str, message: str) -> RejectionScope:
    stated = _MOST.search(message)
    if stated is None:
        return _of_resource(pod, named)
    most = int(stated[1])
    if asked(pod, named) <= most:
        return RejectionScope(pod.kind_id)
    return RejectionScope(f"{named}{AT_MOST}{most}", is_stated=True)


def asked(pod: Pod, resource: str) -> int:
    """How much of a resource the pod's most demanding container asks for."""
    return pod.largest.get(resource, pod.requests.get(resource, 0))


def covers(scope: str, pod: Pod) -> bool:
    """Whether a node that is avoided for this scope is avoided by the pod."""
    if scope in (WHOLE_NODE, pod.kind_id):
        return True
    for word, extra in ((AT_LEAST, 0), (AT_MOST, 1)):
        resource, separator, number = scope.partition(word)
        if separator:
            return asked(pod, resource) >= int(number) + extra
    return pod.requests.get(scope, 0) > 0


def stated_most(scope: str) -> tuple[str, int] | None:
    """The resource and how much of it the node's plugin gives to one container, if it says so."""
    resource, separator, number = scope.partition(AT_MOST)
    return (resource, int(number)) if separator else None


def described(scopes: Iterable[str]) -> str:
    """The scopes of one circuit, for people."""
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
    # Nobody counts processors or bytes: how much was asked for tells devices apart, not these.
    return RejectionScope(resource, asked(pod, resource) if "/" in resource else 1)


def _device(pod: Pod, message: str) -> str | None:
    """The pod's resource that the device manager could not give."""
    devices = [one for one, amount in pod.requests.items() if "/" in one and amount > 0]
    for one in devices:
        if re.search(rf"(?<!{_INSIDE}){re.escape(one)}(?!{_INSIDE}*\w)", message):
            return one
    # "GetPreferredAllocation rpc failed ... GPU is lost": it can only be about the one there is.
    return devices[0] if len(devices) == 1 and _PLUGIN.search(message) else None
