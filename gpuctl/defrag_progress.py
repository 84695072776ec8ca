"""The progress of a defragmentation plan of several restarts: what follows after each of them.

The pods are evicted one after the other. The next one is evicted only when the replacement of the
one before is placed, and the rest of the plan is the scheduler's plan for the state of that moment.
So a plan stops where something else took the room, and the restarted pods run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from scheduler.decide.migration.defrag_plan import Plan, Relocation
from scheduler.model.pods.pod import Owner, Pod
from scheduler.state.cache.cluster import Cluster

#: Seconds for the next step after an eviction; the longest grace period of a migration is 300.
STEP_MAX_S: Final = 330.0
POLL_S: Final = 2.0

#: The plan of a pending pod with at most that many restarts.
Replan = Callable[[Cluster, Pod, int], Plan | None]


class Ready(msgspec.Struct, frozen=True):
    """This pod is evicted next."""

    pod: Pod


class NotYet(msgspec.Struct, frozen=True):
    """What the next eviction waits for."""

    text: str


class Placed(msgspec.Struct, frozen=True):
    """The waiting pod is placed: no other pod has to move."""


def next_step(
    plan: Plan, done: int, at_start: Cluster, cluster: Cluster, pending: Pod | None, replan: Replan
) -> Ready | NotYet | Placed:
    """What follows after the first ``done`` restarts of a plan.

    ``at_start`` is the state in which the plan was made, ``pending`` the waiting pod if it is still
    pending.
    """
    if pending is None:
        return Placed() if _is_placed(cluster, plan.pod) else NotYet(f"{plan.pod.key} is gone")
    unfinished = _unfinished(plan.moves[:done], at_start, cluster)
    if unfinished is not None:
        return unfinished
    left = plan.moves[done:]
    rest = replan(cluster, pending, len(left))
    if rest is None or not rest.is_certain:
        return NotYet(f"without {left[0].pod.key} there would not be room for {plan.pod.key}")
    if [move.pod.uid for move in rest.moves] != [move.pod.uid for move in left]:
        others = " and ".join(move.pod.key for move in rest.moves) or "no pod"
        return NotYet(f"the cheapest plan would move {others} now")
    return Ready(left[0].pod)


def _unfinished(moves: Iterable[Relocation], at_start: Cluster, cluster: Cluster) -> NotYet | None:
    """The first restart that is not finished."""
    for move in moves:
        owner = move.pod.owner
        if move.pod.uid in cluster.pods:
            return NotYet(f"{move.pod.key} has not ended")
        if owner is not None and _running(cluster, owner) < _running(at_start, owner):
            return NotYet(f"no replacement of {move.pod.key} is placed")
    return None


def _running(cluster: Cluster, owner: Owner) -> int:
    """The placed pods of a controller that are not terminating."""
    return sum(
        pod.owner == owner and not pod.is_deleting
        for node_info in cluster.candidates()
        for pod, _ in node_info.pods.values()
    )


def _is_placed(cluster: Cluster, pod: Pod) -> bool:
    return any(pod.uid in node_info.pods for node_info in cluster.candidates())
