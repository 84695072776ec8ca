"""What each team uses, and what it is entitled to; kept by events, no question walks over pods.

Placed pods count with what they were granted (bound or assumed), claims with their devices. The
devices of an extended resource that DRA serves are those of its claim, so they count once. Without
teams (``table`` is None) nothing is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.model.teams.amount import NOTHING, UNKNOWN, GpuAmount, GpuKind
from scheduler.model.teams.configuration import teams_of_namespaces
from scheduler.model.teams.team import Team, TeamTable
from scheduler.state.cache.namespaces import NamespaceStore
from scheduler.state.dra.store import DraStore
from scheduler.state.node_info import NodeInfo
from scheduler.state.pod_allocation import PodAllocation
from scheduler.state.teams.devices import claim_amount, kind_on, node_capacity

#: What belongs to no team.
OUTSIDE = ""


class _Held(msgspec.Struct, frozen=True):
    team: str
    amount: GpuAmount


class _CountedNode(msgspec.Struct, frozen=True):
    kind: GpuKind
    capacity: GpuAmount


class TeamBooks:
    """One set of books per cluster state."""

    def __init__(self, namespaces: NamespaceStore) -> None:
        self.table: TeamTable | None = None
        #: Whether the teams are those of the Namespaces' annotations.
        self.of_namespaces = False
        #: Kinds of GPU by the number of their nodes with healthy devices.
        self.kinds: dict[GpuKind, int] = {}
        #: Counts the changes of what is used or entitled.
        self.generation = 0
        #: Unix time, as of the last tick: for the age of pods that may be taken back.
        self.now = 0.0
        self._namespaces = namespaces
        self._pods: dict[str, _Held] = {}
        self._claims: dict[str, _Held] = {}
        #: Claims with a device that no slice publishes (yet).
        self._unknown: dict[str, None] = {}
        self._nodes: dict[str, _CountedNode] = {}
        self._used: dict[str, GpuAmount] = {}
        self._total = NOTHING
        self._guaranteed = NOTHING
        self._freed: dict[str, None] = {}
        #: The scaled guarantees, as long as they hold.
        self._entitled: dict[str, GpuAmount] = {}

    # --- reading ---------------------------------------------------------------------

    def team_of(self, namespace: str) -> Team | None:
        """The team of a namespace, if it belongs to one."""
        table = self.table
        if table is None:
            return None
        return table.teams.get(table.name_of(self._namespaces.of(namespace)))

    def team_asking(self, pod: Pod) -> Team | None:
        """The team that may take back for a pod; None for work that Kueue admitted."""
        if self.table is None or (self.table.kueue and pod.is_of_kueue):
            return None
        return self.team_of(pod.namespace)

    def used(self, name: str) -> GpuAmount:
        """What a team uses; of ``OUTSIDE`` what pods outside all teams use."""
        return self._used.get(name, NOTHING)

    @property
    def capacity(self) -> GpuAmount:
        """The healthy devices of all nodes without what pods outside all teams use."""
        return self._total.minus(self.used(OUTSIDE)).clamped()

    @property
    def free(self) -> GpuAmount:
        """The part of the capacity that no team uses."""
        assert self.table is not None, "there are no teams"
        found = self.capacity
        for name in self.table.teams:
            found = found.minus(self.used(name))
        return found.clamped()

    @property
    def scale(self) -> tuple[Fraction, Fraction]:
        """The parts of the guarantees that the capacity covers: of slices, and of memory."""
        has, wants = self.capacity, self._guaranteed
        return _part(has.slices, wants.slices), _part(has.mib, wants.mib)

    def guarantee(self, team: Team) -> GpuAmount:
        """What a team is entitled to: its guarantee, scaled where all together exceed the
        capacity.
        """
        found = self._entitled.get(team.name)
        if found is None:
            slices, memory = self.scale
            amount = team.guarantee
            found = GpuAmount(int(amount.slices * slices), int(amount.mib * memory))
            self._entitled[team.name] = found
        return found

    def is_entitled(self, team: Team, asked: GpuAmount) -> bool:
        """Whether a team stays inside its guarantee with what it asks for."""
        return self.used(team.name).plus(asked).fits_in(self.guarantee(team))

    def above(self, team: Team) -> GpuAmount:
        """What a team uses above its guarantee."""
        return self.used(team.name).minus(self.guarantee(team)).clamped()

    def order(self, team: Team, asked: GpuAmount) -> tuple[int, float]:
        """The place of a team's work among the teams, the first one first: entitled work by what of
        the guarantee is used, other work by what the team would use above it.
        """
        if self.is_entitled(team, asked):
            used, of = self.used(team.name), self.guarantee(team)
            return 0, max(_ratio(used.slices, of.slices), _ratio(used.mib, of.mib))
        over, of = self.used(team.name).plus(asked).minus(self.guarantee(team)), self.capacity
        most = max(_ratio(over.slices, of.slices), _ratio(over.mib, of.mib), 0.0)
        return 1, most / team.weight

    def asked(self, pod: Pod, kind: GpuKind) -> GpuAmount:
        """What the requests of a pod are worth on nodes with a kind of GPU."""
        return total(kind.of(resource, count) for resource, count in pod.gpu_requests.items())

    def least_asked(self, pod: Pod) -> GpuAmount:
        """The same for the kind with the smallest GPUs."""
        found = [self.asked(pod, kind) for kind in self.kinds or (UNKNOWN,)]
        return min(found, key=lambda one: (one.slices, one.mib))

    def kind_at(self, name: str) -> GpuKind:
        """The kind of GPU of a node."""
        known = self._nodes.get(name)
        return known.kind if known is not None else UNKNOWN

    def held_by(self, uid: str) -> GpuAmount:
        """What a placed pod counts for, without its claims."""
        known = self._pods.get(uid)
        return known.amount if known is not None else NOTHING

    def amount_at(self, node_info: NodeInfo, pod: Pod, allocation: PodAllocation) -> GpuAmount:
        """What a placed pod was granted, without its claims. Pods that a map puts on one GPU have
        equal parts of it.
        """
        name = node_info.node.name if node_info.node is not None else ""
        kind = self.kind_at(name)
        requests = pod.gpu_requests
        if requests:
            served = node_info.is_served_by_dra
            return total(kind.of(one, count) for one, count in requests.items() if not served(one))
        if not allocation.has_gpus:
            return NOTHING
        holders = node_info.usage.holders
        gpus = Fraction(allocation.unknown)
        for number in allocation.numbers:
            gpus += Fraction(1, max(1, len(holders.get(number, ()))))
        return kind.whole.times(gpus)

    # --- events ----------------------------------------------------------------------

    def put_pod(self, node_info: NodeInfo, pod: Pod) -> None:
        """A pod was placed, or holds something else."""
        allocation = node_info.pods[pod.uid][1]
        self._set(pod, self.amount_at(node_info, pod, allocation))
        if allocation.numbers and not pod.gpu_requests:
            self._share(node_info)

    def drop_pod(self, node_info: NodeInfo, pod: Pod) -> None:
        """A pod left its node."""
        held = self._pods.pop(pod.uid, None)
        if held is not None:
            self._change(held.team, NOTHING.minus(held.amount))
        if pod.map_text is not None and not pod.gpu_requests:
            self._share(node_info)

    def put_node(self, node_info: NodeInfo, dra: DraStore) -> None:
        """A node or its devices changed: its pods may be worth something else."""
        node = node_info.node
        assert node is not None, "a node that only its pods name has no capacity"
        kind = kind_on(node_info, dra)
        counted = _CountedNode(kind, node_capacity(node_info, kind, dra))
        before = self._nodes.get(node.name)
        if before != counted:
            self._forget_node(node.name)
            self._nodes[node.name] = counted
            if counted.capacity:
                self.kinds[kind] = self.kinds.get(kind, 0) + 1
            self._total = self._total.plus(counted.capacity)
            self._entitled.clear()
            self.generation += 1
            if before is None or not counted.capacity.fits_in(before.capacity):
                self._free_all()
        for pod, allocation in node_info.pods.values():
            self._set(pod, self.amount_at(node_info, pod, allocation))

    def drop_node(self, name: str) -> None:
        """A node was deleted; its pods still hold what is known of them."""
        self._forget_node(name)

    def put_claims(self, dra: DraStore) -> None:
        """Claims have other devices, or the devices of some are published now."""
        changed, dra.recounted = dra.recounted, {}
        for key in (*(changed or ()), *self._unknown):
            self._put_claim(dra, key)

    def rebuild(self, table: TeamTable | None, nodes: Iterable[NodeInfo], dra: DraStore) -> None:
        """Other teams: everything is counted again."""
        self.table = table
        dra.recounted = None if table is None else {}
        for part in (self.kinds, self._pods, self._claims, self._unknown, self._nodes, self._used):
            part.clear()
        self._total = self._guaranteed = NOTHING
        self._entitled.clear()
        self.generation += 1
        if table is None:
            return
        self._guaranteed = total(one.guarantee for one in table.teams.values())
        for node_info in nodes:
            if node_info.node is not None:
                self.put_node(node_info, dra)
            else:
                for pod, allocation in node_info.pods.values():
                    self._set(pod, self.amount_at(node_info, pod, allocation))
        for key in dra.every_counted():
            self._put_claim(dra, key)
        self._free_all()

    def table_now(self) -> TeamTable | None:
        """The teams after a change of Namespaces."""
        if not self.of_namespaces:
            return self.table
        former = self.table.teams if self.table is not None else {}
        found = teams_of_namespaces(self._namespaces.known.values(), former)
        return found if found.teams else None

    def take_freed(self) -> frozenset[str]:
        """The teams that may use more than at the last call."""
        found = frozenset(self._freed)
        self._freed.clear()
        return found

    def _team_name(self, namespace: str) -> str:
        team = self.team_of(namespace)
        return team.name if team is not None else OUTSIDE

    def _put_claim(self, dra: DraStore, key: str) -> None:
        held = self._claims.pop(key, None)
        if held is not None:
            self._change(held.team, NOTHING.minus(held.amount))
        self._unknown.pop(key, None)
        allocation = dra.counted(key)
        if allocation is None:
            return
        amount = claim_amount(dra, allocation)
        if amount is None:
            self._unknown[key] = None
            return
        team = self._team_of_claim(dra, key)
        self._claims[key] = _Held(team, amount)
        self._change(team, amount)

    def _team_of_claim(self, dra: DraStore, key: str) -> str:
        """The team of a claim's namespace; of one that is not created yet the team of its pod."""
        if dra.claim(key) is None:
            for uid in dra.users_of(key):
                if uid in self._pods:
                    return self._pods[uid].team
        return self._team_name(key.partition("/")[0])

    def _share(self, node_info: NodeInfo) -> None:
        """The pods that maps put on GPUs of the node share them with more or fewer others."""
        for pod, allocation in node_info.pods.values():
            if allocation.numbers and not pod.gpu_requests:
                self._set(pod, self.amount_at(node_info, pod, allocation))

    def _set(self, pod: Pod, amount: GpuAmount) -> None:
        held = self._pods.get(pod.uid)
        if held is None and not amount and not pod.gpu_requests:
            return
        team = self._team_name(pod.namespace)
        if held is not None:
            if (held.team, held.amount) == (team, amount):
                return
            self._change(held.team, NOTHING.minus(held.amount))
        self._pods[pod.uid] = _Held(team, amount)
        self._change(team, amount)

    def _change(self, team: str, by: GpuAmount) -> None:
        self._used[team] = self.used(team).plus(by)
        self.generation += 1
        if team == OUTSIDE:
            self._entitled.clear()
        if by.slices < 0 or by.mib < 0:
            if team == OUTSIDE:
                self._free_all()
            else:
                self._freed[team] = None

    def _free_all(self) -> None:
        if self.table is not None:
            self._freed.update(dict.fromkeys(self.table.teams))

    def _forget_node(self, name: str) -> None:
        counted = self._nodes.pop(name, None)
        if counted is None:
            return
        self._entitled.clear()
        self.generation += 1
        self._total = self._total.minus(counted.capacity)
        if not counted.capacity:
            return
        self.kinds[counted.kind] -= 1
        if not self.kinds[counted.kind]:
            del self.kinds[counted.kind]


class WhatIfTeams(TeamBooks):
    """Books to read: the use of teams with hypothetical placements."""

    def __init__(self, below: TeamBooks) -> None:
        vars(self).update(vars(below))
        self._more: dict[str, GpuAmount] = {}

    def used(self, name: str) -> GpuAmount:
        found = self._used.get(name, NOTHING)
        more = self._more.get(name)
        return found if more is None else found.plus(more)

    def add(self, namespace: str, amount: GpuAmount, sign: int = 1) -> None:
        """A namespace uses more, or less."""
        team = self._team_name(namespace)
        if team == OUTSIDE:
            self._entitled = {}
        self._more[team] = self._more.get(team, NOTHING).plus(amount.times(sign))


def total(amounts: Iterable[GpuAmount] | Iterator[GpuAmount]) -> GpuAmount:
    """The sum of amounts."""
    found = NOTHING
    for one in amounts:
        found = found.plus(one)
    return found


def _part(has: int, wants: int) -> Fraction:
    return Fraction(1) if has >= wants else Fraction(has, wants)


def _ratio(part: int, whole: int) -> float:
    if part <= 0:
        return 0.0
    return part / whole if whole else float("inf")
