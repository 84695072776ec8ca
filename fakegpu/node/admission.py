"""Rejects the pods that a kubelet would not admit, on nodes without a kubelet: a container that
requests more of a shared resource than its configuration allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from fakegpu.node.device_status import holders_of
from fakegpu.node.pod_devices import PodUse
from fakegpu.node.preferred_allocation import refusal
from fakegpu.topology.node_topology import NodeTopology


class Refusal(msgspec.Struct, frozen=True):
    """A rejected pod, and the reason."""

    pod: PodUse
    text: str


def refusals(
    topology: NodeTopology, pods: Iterable[PodUse], before: NodeTopology | None
) -> Iterator[Refusal]:
    """The pods that are not admitted; pods that were admitted (``before``) stay."""
    admitted = {
        (holder.namespace, holder.pod)
        for gpu in (before.gpus if before else ())
        for holder in holders_of(gpu)
    }
    for pod in pods:
        if (pod.namespace, pod.name) in admitted:
            continue
        texts = (refusal(topology, need.resource, need.count) for need in pod.needs)
        if text := next(filter(None, texts), ""):
            yield Refusal(pod, text)
