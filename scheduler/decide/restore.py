"""Whether a degraded pod could have the tier that it asked for, beside everybody stronger.

The same question as at admission, asked with the same holders, and about the asked tier alone: what
a newcomer of its priority would not be given, a restored pod is not given either. So a pod is never
stopped for a slice that its replacement would not get.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from scheduler.decide.fallback import Granted, choose_tier
from scheduler.decide.options import Option
from scheduler.decide.view import Profile
from scheduler.model import names
from scheduler.model.obstacle import Facts
from scheduler.model.original import as_asked
from scheduler.model.pod import Pod
from scheduler.model.ticket import Move, Ticket, match_of, name_of, profiles
from scheduler.state.cluster import Cluster
from scheduler.state.promise import Promises

Waiting = Iterable[Iterable[Pod]]
#: For how long after its pod's grace a replacement is waited for.
HELD_S: Final = 60.0
#: Annotations on which it depends what a pod would get if it came again.
_SAID: Final = (
    *(names.ORIGINAL, names.TIER_NODES, names.MEMORY_GIVEN),
    *(names.MIG_FALLBACK, names.MEMORY_FLOOR, names.WANTED_MEMORY),
)


class Wish(msgspec.Struct, frozen=True):
    """A move that would help now: ``wanted`` is the pod as its replacement would be."""

    move: Move
    pod: Pod
    wanted: Pod
    node_name: str

    @property
    def change(self) -> str:
        """``1g.10gb->2g.20gb``, for people."""
        return f"{profiles(self.pod.gpu_requests)}->{profiles(self.wanted.gpu_requests)}"

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
    if cluster.quotas.refusal(wanted, let_in(promises, pod)) is not None:
        return None  # nobody would let the replacement in
    held = promises.holders(pod.priority)
    found = choose_tier(cluster, wanted, [Option(pod=wanted)], held, waiting, profile)
    if not isinstance(found, Granted):
        return None
    return Wish(Move.RESTORE, pod, wanted, found.placement.node_name)


def let_in(promises: Promises, pod: Pod) -> list[Pod]:
    """What quotas do not show: pods that were let in just now, and that this one will be gone."""
    less = {resource: -amount for resource, amount in pod.requests.items()}
    gone = msgspec.structs.replace(pod, requests=less)
    return [*(one.pod for one in promises.unmet()), gone]


def ticket_of(wish: Wish, facts: Facts, attempt: int, digest: str, now: float) -> Ticket:
    """The ticket with which a safe move begins."""
    pod, match = wish.pod, match_of(wish.pod)
    assert pod.owner is not None, "only owned pods are moved"
    assert match is not None, "what is owned can be matched"
    return Ticket(
        id=name_of(wish.move, attempt, digest),
        move=wish.move,
        namespace=pod.namespace,
        owner=pod.owner,
        told=facts.told,
        workload=pod.workload,
        revision=match.revision,
        index=match.index,
        pod_name=pod.name,
        pod_uid=pod.uid,
        source=dict(pod.gpu_requests),
        target=dict(wish.wanted.gpu_requests),
        node_name=wish.node_name,
        requests=dict(wish.wanted.requests),
        priority=pod.priority,
        attempt=attempt,
        replicas=facts.replicas,
        made_at=now,
        deadline=now + facts.grace_s + HELD_S,
    )


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
    said = tuple(map(pod.annotations.get, _SAID))
    return (pod.priority, pod.kind, pod.namespace, pod.group, pod.map_text is None, *said)
