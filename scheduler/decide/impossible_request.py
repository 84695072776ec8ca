"""Requests that no node of the cluster can satisfy, even if the node were empty.

The message then has the numbers instead of a wait. It covers only existing nodes: an autoscaler may
add a larger one, but no node of a GPU model gains a MIG profile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.model import well_known
from scheduler.model.gpu.gpu_memory import in_both_units, least_mib
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.quantity import format_value
from scheduler.model.reasons.reason import ImpossibleRequest
from scheduler.state.cache.advertised_resources import AdvertisedResources

#: Maximum number of models and of resources in a message.
SHOWN_MAX: Final = 3


def impossible_in_cluster(pod: Pod, offers: AdvertisedResources) -> ImpossibleRequest | None:
    """Why no empty node would fit, or None if one would as far as is known.

    A resource that no node has is ignored: its device plugin may not have started yet.
    """
    missing = next((one for one in pod.gpu_requests if offers.lacks_profile(one)), None)
    if missing is not None:
        models = offers.models()
        shown = f" ({', '.join(models[:SHOWN_MAX])})" if models else ""
        where = f"GPU model here{shown}" if models else "known GPU model"
        return ImpossibleRequest(
            f"no {where} has the MIG profile {well_known.mig_profile(missing)[:40]}", True
        )
    return _too_much_memory(pod, offers.largest_gpu_mib) or _too_much(
        pod, offers.most, "the largest node here"
    )


def _too_much_memory(pod: Pod, most_mib: int) -> ImpossibleRequest | None:
    """GPU memory that no whole GPU has; a MIG instance is given only if it has as much."""
    amount = pod.gpu_memory.get(well_known.GPU, 0)
    if not 0 < most_mib < least_mib(amount):
        return None
    return ImpossibleRequest(
        f"requests {format_value(well_known.MEMORY, amount)} of GPU memory and the largest GPU here"
        f" has {in_both_units(most_mib)}"
    )


def impossible_on_node(pod: Pod, node: Node) -> ImpossibleRequest | None:
    """The same for the only node that the pod may use."""
    return _too_much(pod, lambda resource: node.when_empty.get(resource, 0), f"node {node.name}")


def _too_much(pod: Pod, most_of: Callable[[str], int], subject: str) -> ImpossibleRequest | None:
    found = [
        f"requests {format_value(resource, need)} {resource} and {subject} has"
        f" {format_value(resource, most)}"
        for resource, need in pod.requests.items()
        if 0 < (most := most_of(resource)) < need
    ]
    return ImpossibleRequest(" and ".join(found[:SHOWN_MAX])) if found else None
