"""Whether a pod that stays pending would be given another tier if it came now.

Its tier was chosen when it was admitted, and cannot be changed since. What was free then may be
taken, and what was taken may be free: if the admission of today would choose another tier than the
pod has, a replacement of it would run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler.decide.fallback import Granted, choose_tier, is_degradable
from scheduler.decide.restore import Waiting, Wish
from scheduler.decide.view import Profile
from scheduler.model.ladder import Ladder
from scheduler.model.original import as_asked, unplaced
from scheduler.model.pod import Pod
from scheduler.model.ticket import Move
from scheduler.state.cluster import Cluster
from scheduler.state.promise import Promises


def rescuable(
    cluster: Cluster,
    promises: Promises,
    waiting: Waiting,
    pod: Pod,
    ladders: Sequence[Ladder],
    profile: Profile,
) -> Wish | None:
    """The rescue of a pending pod that could be done now."""
    if not is_degradable(pod):
        return None
    asked = as_asked(pod) or unplaced(pod)
    held = [one for one in promises.holders(pod.priority) if one.pod.uid != pod.uid]
    others = ((one for one in group if one.uid != pod.uid) for group in waiting)
    found = choose_tier(cluster, asked, ladders, held, others, profile)
    if not isinstance(found, Granted) or found.pod.gpu_requests == pod.gpu_requests:
        return None
    return Wish(Move.RESCUE, pod, found.pod, found.placement.node_name)


def candidates(groups: Waiting, each: int) -> Iterable[Pod]:
    """Pods that wait, some of each group that waits for the same."""
    for group in groups:
        for count, pod in enumerate(group, 1):
            yield pod
            if count >= each:
                break
