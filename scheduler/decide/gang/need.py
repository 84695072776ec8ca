"""How many members of a gang have to get a node together, and how many of each role. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.state.gangs.gang import Gang, role_of

T = TypeVar("T")


class Need(msgspec.Struct, frozen=True):
    """``roles`` is empty where any member counts."""

    count: int
    roles: Mapping[str, int] = {}

    @staticmethod
    def of(gang: Gang, waiting: Sequence[Pod]) -> Need | None:
        """What a gang needs; None if too few of its members wait."""
        count, roles = gang.need, gang.needs
        if count is None or not 0 < count <= len(waiting):
            return None
        there = Counter(map(role_of, waiting))
        if any(there[role] < lacking for role, lacking in roles.items()):
            return None
        return Need(count, roles if any(roles.values()) else {})

    def met_by(self, pods: Sequence[Pod]) -> int:
        """How many of the needed members are among these; others do not stand for them."""
        if not self.roles:
            return len(pods)
        there = Counter(map(role_of, pods))
        return sum(min(count, there[role]) for role, count in self.roles.items())

    def without(self, pods: Iterable[Pod]) -> Need:
        """What is needed beside these members, which are all needed."""
        there = Counter(map(role_of, pods))
        roles = {role: count - there[role] for role, count in self.roles.items()}
        return Need(self.count - there.total(), roles)

    def first_short(
        self, placed: Iterable[Pod], refused: Sequence[T], pod_of: Callable[[T], Pod]
    ) -> T:
        """The first refused member; where a role is short, the first one of that role."""
        there = Counter(map(role_of, placed))
        short = {role for role, count in self.roles.items() if there[role] < count}
        return next((one for one in refused if role_of(pod_of(one)) in short), refused[0])
