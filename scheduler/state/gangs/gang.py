"""One gang: its members, which of them have a node, and how many have to get one together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from scheduler.model.pods.gang import GangKey
from scheduler.model.pods.pod import Pod
from scheduler.model.topology.request import TopologyRequest
from scheduler.state.counts import add


def role_of(pod: Pod) -> str:
    """The role of a member in its gang."""
    mark = pod.gang
    return "" if mark is None else mark.role


class Gang:
    """The living members of one gang; only ``GangIndex`` changes it.

    ``placed`` are the uids of the members with a node, bound or assumed, that are not being
    deleted; ``waiting`` those of the members that this scheduler may place now. ``returning`` are
    the waiting ones of an owner whose pods ran together before.
    """

    __slots__ = (
        "__weakref__",
        "_minimums",
        "_topologies",
        "is_defined",
        "key",
        "members",
        "of_object",
        "placed",
        "problem",
        "returning",
        "roles",
        "topology_of_object",
        "waiting",
    )

    def __init__(self, key: GangKey) -> None:
        self.key = key
        self.members: dict[str, Pod] = {}
        self.placed: set[str] = set()
        self.waiting: set[str] = set()
        self.returning: set[str] = set()
        #: Whether an object defines the gang.
        self.is_defined = False
        #: The minimum in the object that defines the gang.
        self.of_object: int | None = None
        #: The minima of roles in that object.
        self.roles: Mapping[str, int] = {}
        #: What that object asks for and does not get here.
        self.problem = ""
        #: How many members name each minimum.
        self._minimums: dict[int, int] = {}
        #: The level of the topology in the object that defines the gang.
        self.topology_of_object: TopologyRequest | None = None
        #: How many members request each level.
        self._topologies: dict[TopologyRequest, int] = {}

    @property
    def minimum(self) -> int | None:
        """How many members are bound together; None while the object that says so is missing, or
        cannot be followed.

        The largest minimum that a living member names.
        """
        if self.problem:
            return None
        return max(self._minimums) if self._minimums else self.of_object

    @property
    def topology(self) -> TopologyRequest | None:
        """The level of the topology within which it stays: that of its object, else the one that
        most members request.
        """
        if self.topology_of_object is not None or not self._topologies:
            return self.topology_of_object
        return max(sorted(self._topologies), key=self._topologies.__getitem__)

    @property
    def is_started(self) -> bool:
        """Whether a member has a node, or had one: the others wait for no pod that does not exist.

        Finished members leave nothing behind, so a replaced one may be the only member.
        """
        return bool(self.placed or self.returning)

    @property
    def need(self) -> int | None:
        """How many of the waiting members have to get a node together; None: it is not known.

        Once the gang has started, no more than wait: finished members do not come back, and a
        replaced one comes alone.
        """
        minimum = self.minimum
        if minimum is None:
            return None
        if self.roles:
            return max(1, sum(self.needs.values()))
        lacking = max(1, minimum - len(self.placed))
        return min(lacking, len(self.waiting)) if self.is_started else lacking

    @property
    def is_complete(self) -> bool:
        """Whether enough members exist to be planned."""
        need = self.need
        if need is None or not 0 < need <= len(self.waiting):
            return False
        if not self.roles:
            return True
        waiting = self.count(self.waiting)
        return all(waiting[role] >= count for role, count in self.needs.items())

    @property
    def needs(self) -> Mapping[str, int]:
        """How many waiting members of each role have to get a node together; empty where roles
        have no minima.
        """
        if not self.roles:
            return {}
        placed, waiting = self.count(self.placed), self.count(self.waiting)
        lacking = {role: max(0, count - placed[role]) for role, count in self.roles.items()}
        if not self.is_started:
            return lacking
        return {role: min(count, waiting[role]) for role, count in lacking.items()}

    def is_enough(self, uids: Collection[str]) -> bool:
        """Whether these members are the minimum, and that of each role."""
        minimum = self.minimum
        if minimum is None or len(uids) < minimum:
            return False
        there = self.count(uids) if self.roles else Counter[str]()
        return all(there[role] >= count for role, count in self.roles.items())

    def count(self, uids: Iterable[str]) -> Counter[str]:
        """How many of these members have each role."""
        return Counter(role_of(self.members[uid]) for uid in uids)

    def waiting_pods(self) -> Iterator[Pod]:
        """The members that wait for a node, in the order of their uids."""
        return (self.members[uid] for uid in sorted(self.waiting))

    def put(self, pod: Pod, minimum: int | None) -> None:
        """Add a member, or its newest state."""
        self.drop(pod.uid)
        self.members[pod.uid] = pod
        if minimum is not None:
            self._minimums[minimum] = self._minimums.get(minimum, 0) + 1
        if pod.topology is not None:
            self._topologies[pod.topology] = self._topologies.get(pod.topology, 0) + 1

    def drop(self, uid: str) -> None:
        """Remove a member, if it is one."""
        pod = self.members.pop(uid, None)
        self.placed.discard(uid)
        self.waiting.discard(uid)
        self.returning.discard(uid)
        if pod is not None and pod.topology is not None:
            add(self._topologies, pod.topology, -1)
        mark = pod.gang if pod is not None else None
        if mark is None or mark.minimum is None:
            return
        self._minimums[mark.minimum] -= 1
        if not self._minimums[mark.minimum]:
            del self._minimums[mark.minimum]
