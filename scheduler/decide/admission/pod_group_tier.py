"""One tier for a whole gang: the requests of its other members and their tiers (design 5.10)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler.model.pods.original_request import as_asked, memory_given
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.reservations import Reservation

#: The key of a memory request, where other requests have the resource as key.
MEMORY = ""


def settled(
    cluster: Cluster, pod: Pod, promises: Iterable[Reservation]
) -> dict[str, frozenset[str]]:
    """The tiers of the members that were admitted before the pod, by request."""
    found: dict[str, set[str]] = {}
    if not pod.group:
        return {}
    for member in cluster.groups.members(pod):
        for asked, given in _chosen(member):
            found.setdefault(asked, set()).add(given)
    for promise in promises:
        member = promise.pod
        if promise.is_matched or (member.namespace, member.group) != (pod.namespace, pod.group):
            continue
        for asked, given in _promised(promise):
            found.setdefault(asked, set()).add(given)
    return {asked: frozenset(given) for asked, given in found.items()}


def _promised(promise: Reservation) -> Iterator[tuple[str, str]]:
    yield from ((one.source, one.target) for one in promise.rewrites)
    changed = {one.target for one in promise.rewrites}
    yield from ((resource, resource) for resource in promise.pod.gpu_requests.keys() - changed)


def _chosen(member: Pod) -> Iterator[tuple[str, str]]:
    yield from ((MEMORY, device) for device in memory_given(member).values())
    before = (as_asked(member) or member).gpu_requests
    now = member.gpu_requests
    for asked in before:
        if asked in now:
            yield asked, asked
        else:
            yield from ((asked, given) for given in now.keys() - before.keys())
