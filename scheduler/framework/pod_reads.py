"""The parts of a pod that plugins read; together they form the pod's equivalence class.

Pods of one class get the same answer from every node, so a plugin must declare everything that it
reads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

import msgspec

from scheduler.model.pods.pod import Pod


class PodRead(msgspec.Struct, frozen=True):
    """One part of a pod; ``of`` returns its value, ``name`` is for readers."""

    name: str
    of: Callable[[Pod], Hashable]


REQUESTS: Final = PodRead(
    "requests",
    lambda pod: (
        tuple(sorted(pod.requests.items())),
        tuple(sorted(pod.largest.items())),
        pod.score_extra,
    ),
)
CONSTRAINTS: Final = PodRead(
    "node selector, node affinity and tolerations",
    lambda pod: pod.constraints,
)
HOST_PORTS: Final = PodRead("host ports", lambda pod: pod.host_ports)
READABLE: Final = PodRead(
    "what cannot be read, is not supported, or needs a feature of the node",
    lambda pod: (pod.unread, pod.unsupported, pod.required_features),
)
DEVICES_READ: Final = PodRead(
    "annotations from which containers read their devices",
    lambda pod: (pod.reads_devices, pod.lacks_request),
)
MAP: Final = PodRead(
    "gpu-scheduling-map and the pod's index in it",
    lambda pod: pod.uid if pod.map_text is not None else None,
)

QUOTA: Final = PodRead(
    "what it says about its team's quota",
    lambda pod: pod.quota_marks,
)

#: Compared per decision, since it depends on the terms of placed pods
#: (``TopologyReader.terms_key``): the answers of a node itself do not depend on it.
TERMS: Final = PodRead(
    "pod affinity, topology spread and the labels that terms select", lambda _: None
)
#: Compared per decision, like TERMS.
TOPOLOGY: Final = PodRead("the requested level of the topology", lambda _: None)
#: Compared by the queue (``state/queue/equivalence_group.key_of``): what nodes answer to a pod does
#: not depend on it.
PREEMPTION: Final = PodRead("priority and preemptionPolicy", lambda _: None)

#: Compared where pods wait together (``state/queue/equivalence_group``): only bound filters read
#: volumes, and what those say is not remembered.
VOLUMES: Final = PodRead("claims and disks", lambda _: None)

#: Compared where pods wait together, like VOLUMES.
RESOURCE_CLAIMS: Final = PodRead("resource claims", lambda _: None)

#: What ``Pod.kind`` holds already; MAP is in no kind, because a mapped pod is a class of its own.
IN_EQUIVALENCE_CLASS: Final = frozenset(
    (
        TERMS,
        TOPOLOGY,
        PREEMPTION,
        VOLUMES,
        RESOURCE_CLAIMS,
        REQUESTS,
        CONSTRAINTS,
        HOST_PORTS,
        READABLE,
        DEVICES_READ,
        MAP,
        QUOTA,
    )
)
