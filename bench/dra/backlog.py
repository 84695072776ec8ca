"""Pods per second of a scheduler that starts cold with pods that wait for devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Final

from bench.dra.cluster import Cluster
from bench.dra.objects import claim, claiming_pod, extended_pod
from bench.load import Request, name_of
from bench.observer import Observer
from bench.rounds import Namespace, schedule
from bench.schedulers import SchedulerUnderTest

#: The objects of a round: namespace, scheduler and number of pods.
Objects = Callable[[str, str, int], Iterator[Request]]


def with_claims(namespace: str, scheduler: str, pods: int) -> Iterator[Request]:
    """Pods with a claim each, for a whole GPU; the claims exist first."""
    for number in range(pods):
        yield claim(namespace, name_of(number))
    for number in range(pods):
        yield claiming_pod(namespace, name_of(number), scheduler)


def with_extended_resources(namespace: str, scheduler: str, pods: int) -> Iterator[Request]:
    """Pods that request a GPU as an extended resource; the scheduler creates their claims."""
    for number in range(pods):
        yield extended_pod(namespace, name_of(number), scheduler)


KINDS: Final[dict[str, Objects]] = {
    "claims": with_claims,
    "extended": with_extended_resources,
}


def one_round(
    cluster: Cluster, contestant: SchedulerUnderTest, kind: str, pods: int
) -> dict[str, float]:
    """One round: from the first Binding to the last one."""
    plane = cluster.plane
    with Namespace(plane) as namespace:
        try:
            cluster.send(KINDS[kind](namespace, contestant.scheduler_name, pods))
            with Observer(plane.client, namespace) as seen:
                used = schedule(plane, contestant, seen, pods)
            check_devices(cluster, pods)
        finally:
            cluster.delete_claims(namespace)
    first, last = min(seen.bound.values()), max(seen.bound.values())
    return {
        "pods_per_s": round((pods - 1) / (last - first), 1),
        **used,
        "load": round(os.getloadavg()[0], 1),
    }


def check_devices(cluster: Cluster, pods: int) -> None:
    """Each pod must have a device of its own."""
    count = cluster.allocated()
    if count != pods:
        raise RuntimeError(f"{count} devices are allocated for {pods} pods")
