"""Whether a degraded pod could have the tier that it asked for, beside everybody stronger.

The same question as at admission, asked with the same holders, and about the asked tier alone: what
a newcomer of its priority would not be given, a restored pod is not given either. So a pod is never
stopped for a slice that its replacement would not get.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from scheduler.decide.fallback import Granted, choose_tier
from scheduler.decide.view import Profile
from scheduler.model import names
from scheduler.model.original import as_asked
from scheduler.model.pod import Pod
from scheduler.model.ticket import Move
from scheduler.state.cluster import Cluster
from scheduler.state.promise import Promises

Waiting = Iterable[Iterable[Pod]]


class Wish(msgspec.Struct, frozen=True):
    """A move that would help now: ``wanted`` is the pod as its replacement would be."""

    move: Move
    pod: Pod
    wanted: Pod
    node_name: str

    @property
    def key(self) -> tuple[object, ...]:
        """What has to stay the same for the wish to be the same."""
        return self.move, self.pod.uid, tuple(sorted(self.wanted.gpu_requests.items()))


def restorable(
    cluster: Cluster, promises: Promises, waiting: Waiting, pod: Pod, profile: Profile
) -> Wish | None:
    """The restore of a degraded pod that could be done now."""
    wanted = as_asked(pod)
    if wanted is None or wanted.gpu_requests == pod.gpu_requests:
        return None
    held = promises.holders(pod.priority)
    found = choose_tier(cluster, wanted, (), held, waiting, profile)
    if not isinstance(found, Granted):
        return None
    return Wish(Move.RESTORE, pod, wanted, found.placement.node_name)


def candidates(pods: Iterable[Pod], scheduler_name: str) -> list[Pod]:
    """Degraded pods that run, the strongest and longest degraded first."""
    running = (
        pod
        for pod in pods
        if pod.node_name and not pod.is_deleting and pod.scheduler_name == scheduler_name
    )
    return sorted(running, key=lambda pod: (-pod.priority, pod.created, pod.uid))


def kind_of(pod: Pod) -> object:
    """Of two pods of one kind, the second gets no better answer than the first."""
    return (pod.priority, pod.kind, pod.annotations.get(names.ORIGINAL))
