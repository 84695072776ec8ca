"""What plugins read of a pod. Together this makes the pod's equivalence class.

Pods of one class get the same answer from every node, so a plugin must declare all that it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from scheduler.model.pod import Pod


class PodRead(msgspec.Struct, frozen=True):
    """One part of a pod: ``of`` gives its value, ``fields`` names the attributes of ``Pod``."""

    name: str
    fields: tuple[str, ...]
    of: Callable[[Pod], Hashable]


REQUESTS: Final = PodRead(
    "requests",
    ("requests", "gpu_requests", "gpu_memory", "containers"),
    lambda pod: (tuple(sorted(pod.requests.items())), tuple(sorted(pod.largest.items()))),
)
CONSTRAINTS: Final = PodRead(
    "node selector, node affinity and tolerations",
    ("node_selector", "required_terms", "preferred_terms", "tolerations"),
    lambda pod: pod.constraints,
)
HOST_PORTS: Final = PodRead("host ports", ("host_ports",), lambda pod: pod.host_ports)
READABLE: Final = PodRead(
    "what cannot be read or is not supported",
    ("unread", "problem", "unsupported"),
    lambda pod: (pod.unread, pod.unsupported),
)
DEVICES_READ: Final = PodRead(
    "annotations from which containers read their devices",
    ("reads_devices", "annotations", "lacks_request"),
    lambda pod: (pod.reads_devices, pod.lacks_request),
)
MAP: Final = PodRead(
    "gpu-scheduling-map and the pod's index in it",
    ("map_text", "owner", "revision", "name", "namespace", "index", "sharing"),
    lambda pod: pod.uid if pod.map_text is not None else None,
)

#: What ``Pod.kind`` holds already.
IN_KIND: Final = frozenset(
    read.name for read in (REQUESTS, CONSTRAINTS, HOST_PORTS, READABLE, DEVICES_READ, MAP)
)
