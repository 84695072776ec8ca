"""A gang as a victim is one: who ends with a member that ends.

The end of a member leaves its gang whole where as many members as its minimum keep their nodes,
and as many of each role as that has to have.
Otherwise the rest of the gang is of no use, and ends with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduler.model.pods.pod import Pod
from scheduler.state.gangs.gang import Gang
from scheduler.state.gangs.index import GangIndex


def ends_alone(gang: Gang, uid: str) -> bool:
    """Whether a member may end without the others."""
    return not _rest(gang, {uid})


def others_of(gang: Gang, uid: str) -> list[Pod]:
    """The members that end with this one, in the order of their uids."""
    return [gang.members[one] for one in sorted(_rest(gang, {uid}))]


def ending_with(gangs: GangIndex, pods: Iterable[Pod]) -> list[Pod]:
    """The members of gangs that end because all these pods end, without these pods."""
    ending: dict[Gang, set[str]] = {}
    for pod in pods:
        if pod.group and (gang := gangs.of(pod)) is not None:
            ending.setdefault(gang, set()).add(pod.uid)
    return [gang.members[uid] for gang, uids in ending.items() for uid in sorted(_rest(gang, uids))]


def _rest(gang: Gang, ending: set[str]) -> set[str]:
    """The placed members that are left, if they are not enough."""
    left = gang.placed - ending
    if gang.minimum is None or len(left) == len(gang.placed) or gang.is_enough(left):
        return set()
    return left
