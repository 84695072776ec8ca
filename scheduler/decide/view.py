"""The cluster with hypothetical placements on top, as plugins and searches read it."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from operator import is_
from typing import Final

import msgspec

from scheduler.framework.decision import Placement
from scheduler.framework.fitting_copies import FittingCopies
from scheduler.framework.plugin import Reasons
from scheduler.framework.view import View
from scheduler.model import well_known
from scheduler.model.crd.migration import is_for
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.gpu.device import Devices
from scheduler.model.pods.pod import Pod
from scheduler.plugins.dynamic_mig import instance_plan
from scheduler.state.cache.cluster import Cluster
from scheduler.state.cache.map_indexes import space_of
from scheduler.state.cache.nominator import Nominator
from scheduler.state.dra.ended_claims import ClaimsOnNode, ClaimUse
from scheduler.state.dra.store import DraStore
from scheduler.state.dra.what_if import WhatIfDra
from scheduler.state.node_info import NodeInfo
from scheduler.state.pod_allocation import PodAllocation
from scheduler.state.teams.books import TeamBooks, WhatIfTeams
from scheduler.state.teams.devices import plan_amount
from scheduler.state.topology.reader import Change

#: With the answers for more classes at one node, or in one view, all of them are dropped.
CLASSES_MAX: Final = 16
#: The key of ``HeldNode`` in the memo of the nodes.
HELD: Final = "held"


class HeldNode(msgspec.Struct, frozen=True):
    """A copy of a node that holds these pods with these devices; never changed.

    ``reasons`` are what the filters say of it, by equivalence class.
    """

    pods: tuple[Pod, ...]
    expected: tuple[Devices | None, ...]
    plans: tuple[ClaimPlan | None, ...]
    changes: tuple[Change, ...]
    node_info: NodeInfo
    reasons: dict[Hashable, Reasons] = {}

    def keep(self, equivalence_class: Hashable, reasons: Reasons) -> None:
        """Keep what the filters say to pods of a class."""
        if len(self.reasons) >= CLASSES_MAX:
            self.reasons.clear()
        self.reasons[equivalence_class] = reasons


class WhatIfView:
    """The cluster with some pods placed on top; the cluster itself is never changed.

    ``claims`` are other states of ResourceClaims than the API server has.
    """

    def __init__(self, cluster: Cluster, claims: Collection[ResourceClaim] = ()) -> None:
        self._cluster = cluster
        self.index = cluster.index
        self.nodes = cluster.nodes
        self.filter_results = cluster.filter_results
        self.changed: dict[str, NodeInfo] = {}
        #: The nodes whose copy belongs to this view alone.
        self._copies: set[str] = set()
        self._fitting: dict[Hashable, FittingCopies] = {}
        self._held = cluster.nodes.memo.of(HELD)
        self.nominated: Mapping[str, Pod] = {}
        self.resolve = cluster.resolve
        self.namespace = cluster.namespace
        #: Without the pods that are removed.
        self._with_placed = cluster.topology
        self.topology = cluster.topology
        self.volumes = cluster.volumes
        self.dra: DraStore = WhatIfDra(cluster.dra, claims) if claims else cluster.dra
        self.pods = cluster.pods
        self.assumed = cluster.assumed
        self.preemptions = cluster.preemptions
        self.teams: TeamBooks = cluster.teams
        self.gangs = cluster.gangs
        #: Map indexes of placed pods, by workload and map text.
        self._indexes: dict[tuple[str, str], dict[int, Pod]] = {}
        self._removed: dict[str, tuple[Pod, str, PodAllocation]] = {}
        self._claims: ClaimsOnNode | None = None
        #: The node of these claims, if pods were removed or put back since they were looked at.
        self._stale_claims = ""

    def candidates(self) -> Iterator[NodeInfo]:
        """NodeInfos of all existing nodes; copies replace those with placements on top."""
        for node_info in self._cluster.candidates():
            assert node_info.node is not None
            yield self.changed.get(node_info.node.name, node_info)

    def at(self, name: str) -> NodeInfo | None:
        """The NodeInfo of one node with the placements on top, or None if the node does not
        exist.
        """
        return self.changed.get(name) or self._cluster.at(name)

    def fitting_copies(self, equivalence_class: Hashable) -> FittingCopies:
        """What pods of a class find at the nodes in ``changed``."""
        known = self._fitting.get(equivalence_class)
        if known is None:
            if len(self._fitting) >= CLASSES_MAX:
                self._fitting.clear()
            known = self._fitting[equivalence_class] = FittingCopies(self.changed)
        return known

    def _change(self, name: str) -> None:
        for one in self._fitting.values():
            one.change(name)

    @property
    def freed_nodes(self) -> set[str]:
        """The names of the nodes from which pods are removed."""
        return {name for _, name, _ in self._removed.values()}

    def hold(self, pods: Iterable[Pod]) -> None:
        """Place pods on their nominated nodes."""
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            by_node.setdefault(pod.nominated_node, []).append(pod)
        if self._cluster.nominations.plans:
            self._give(by_node)
        changes: list[Change] = []
        for name, there in by_node.items():
            changes += self._hold_at(name, there)
        if changes:
            self._count(*changes)

    def _plan(self, pod: Pod) -> ClaimPlan | None:
        """The devices that the claims of a nominated pod are to get."""
        plan = self._cluster.nominations.plans.get(pod.uid)
        return plan if plan is not None and plan.node_name == pod.nominated_node else None

    def _give(self, by_node: Mapping[str, list[Pod]]) -> None:
        """The claims of nominated pods have their devices."""
        for pod in (pod for there in by_node.values() for pod in there):
            if (plan := self._plan(pod)) is not None:
                self._own_dra().give(pod, plan)

    def _own_dra(self) -> WhatIfDra:
        if not isinstance(self.dra, WhatIfDra):
            self.dra = WhatIfDra(self._cluster.dra)
        return self.dra

    def _hold_at(self, name: str, pods: list[Pod]) -> tuple[Change, ...]:
        """Place pods on one node; the copy is shared between decisions until the node changes."""
        of = self._cluster.nominations.expected
        expected = tuple([of.get(pod.uid) for pod in pods]) if of else (None,) * len(pods)
        planned = self._cluster.nominations.plans
        plans = tuple(map(self._plan, pods)) if planned else (None,) * len(pods)
        known = self._held.get(name) if name not in self.changed else None
        if (
            isinstance(known, HeldNode)
            and known.expected == expected
            and known.plans == plans
            and len(known.pods) == len(pods)
            and all(map(is_, known.pods, pods))
        ):
            self.changed[name] = known.node_info
            self._change(name)
            for pod in pods:
                self._use(pod, known.node_info)
            return known.changes
        if (node_info := self.at(name)) is None:
            return ()
        is_first = node_info is not self.changed.get(name)
        for pod, devices in zip(pods, expected, strict=True):
            self._enter(pod, name, devices)
        if any(plans):
            held = [pod for pod, plan in zip(pods, plans, strict=True) if plan is not None]
            self._count_claims(name, held)
        changes = tuple([Change(pod, name, 1) for pod in pods])
        # The permission to use maps changes without a change of the node.
        if is_first and not any(pod.map_text is not None for pod in pods):
            self._held.keep(
                name, HeldNode(tuple(pods), expected, plans, changes, self.changed[name])
            )
            self._copies.discard(name)
        return changes

    def place(
        self, pod: Pod, node_name: str, devices: Devices | None, claims: ClaimPlan | None = None
    ) -> None:
        """Place a pod on a copy of the NodeInfo; an unknown node is ignored."""
        if self.at(node_name) is not None:
            self._enter(pod, node_name, devices)
            self._count(Change(pod, node_name, 1))
            if claims is not None:
                self._own_dra().give(pod, claims)
                self._count_claims(node_name, [pod])
                if self.teams.table is not None:
                    amount = plan_amount(self.dra, claims)
                    self._own_teams().add(pod.namespace, amount)

    def place_decided(self, placement: Placement) -> None:
        """Place a pod with everything that its placement gives it."""
        pod = placement.pod
        self.place(pod, placement.node_name, placement.devices, placement.claims)
        if placement.volumes is not None:
            if self.volumes is self._cluster.volumes:
                self.volumes = self.volumes.what_if()
            self.volumes.assume(pod.uid, placement.volumes)
        space = space_of(pod)
        if placement.index is not None and space is not None:
            self._indexes.setdefault(space, {})[placement.index] = pod

    def indexes_held(self, pod: Pod) -> Mapping[int, Pod]:
        """Map index -> the pod of its workload and map text that holds it."""
        held = self._cluster.indexes_held(pod)
        if not self._indexes or (space := space_of(pod)) is None:
            return held
        return {**held, **self._indexes.get(space, {})}

    def _enter(self, pod: Pod, node_name: str, devices: Devices | None) -> None:
        node_info = self._copied(node_name)
        if devices is None and (chosen := instance_plan.mig_placements(pod, node_info)):
            # The pod has no placement yet: use one of its possible placements.
            devices = Devices(mig_placements=chosen)
        node_info.add(pod, self.nodes.allocation(pod, devices))
        self._use(pod, node_info)

    def _own_teams(self) -> WhatIfTeams:
        if not isinstance(self.teams, WhatIfTeams):
            self.teams = WhatIfTeams(self._cluster.teams)
        return self.teams

    def _use(self, pod: Pod, node_info: NodeInfo, sign: int = 1) -> None:
        """The team of a pod on a node uses more, or less."""
        if self.teams.table is not None:
            amount = self.teams.amount_at(node_info, pod, node_info.pods[pod.uid][1])
            self._own_teams().add(pod.namespace, amount, sign)

    def lift(self, pod: Pod) -> None:
        """Remove a nominated pod from its node."""
        name = pod.nominated_node
        if name not in self.changed or pod.uid not in self._copied(name).pods:
            return
        self._use(pod, self._copied(name), -1)
        if self._copied(name).remove(pod.uid) is not None:
            self._count(Change(pod, name, -1))
            if (plan := self._plan(pod)) is not None:
                self._own_dra().take_back(pod, plan)
                self._count_claims(name, [pod], -1)

    def remove(self, uid: str, node_name: str) -> None:
        """Take a placed pod off its node, until ``put_back``."""
        node_info = self._copied(node_name)
        pod, allocation = node_info.pods[uid]
        self._removed[uid] = (pod, node_name, allocation)
        self._use(pod, node_info, -1)
        node_info.remove(uid)
        self._count_removed()
        if self._claims is not None:
            node_info.count_claims(pod, -1)
            self._stale_claims = node_name

    def remove_all(self, pods: Iterable[tuple[str, str]]) -> None:
        """Take these placed pods off their nodes: uid and node of each; claims keep what they
        have.
        """
        for uid, node_name in pods:
            node_info = self._copied(node_name)
            pod, allocation = node_info.pods[uid]
            self._removed[uid] = (pod, node_name, allocation)
            node_info.remove(uid)
        self._count_removed()

    def put_back(self, uid: str) -> None:
        """Enter a pod again that was removed; it holds what it held."""
        pod, node_name, allocation = self._removed.pop(uid)
        self._copied(node_name).add(pod, allocation)
        self._use(pod, self.changed[node_name])
        self._count_removed()
        if self._claims is not None:
            self.changed[node_name].count_claims(pod, 1)
            self._stale_claims = node_name

    def follow_claims(self, newcomer: Pod, node_name: str) -> None:
        """From now on what the claims of removed pods have is free for this pod, and what those of
        pods have that ended before.
        """
        node_info = self._copied(node_name)
        assert node_info.node is not None
        use = ClaimUse(self._cluster.dra, self._cluster.pods, self._cluster.assumed)
        self._claims, self._stale_claims = ClaimsOnNode(use, node_info.node, newcomer), node_name

    def free_claims(self) -> None:
        """Bring what is free by claims up to date with the pods that are removed now."""
        if self._claims is None or not self._stale_claims:
            return
        name, self._stale_claims = self._stale_claims, ""
        free = self._claims.ending(pod for pod, _, _ in self._removed.values())
        if self._own_dra().set_free(free):
            self._count_claims(name)

    def _count_claims(self, node_name: str, pods: Iterable[Pod] = (), sign: int = 1) -> None:
        """Count the devices of a node again, with (1) or without (-1) those that these pods have by
        claims.
        """
        node_info = self._copied(node_name)
        assert node_info.node is not None
        for pod in pods:
            node_info.count_claims(pod, sign)
        node_info.upsert_devices(self.dra.devices_on(node_info.node))

    def _copied(self, node_name: str) -> NodeInfo:
        """A copy of the node's books that is this view's own, made once; the caller changes it."""
        if node_name not in self._copies:
            node_info = self.at(node_name)
            assert node_info is not None, f"{node_name} does not exist"
            self.changed[node_name] = node_info.copy()
            self._copies.add(node_name)
        self._change(node_name)
        return self.changed[node_name]

    def _count_removed(self) -> None:
        """Not one change after the other: a pod may be removed and put back many times."""
        removed = (Change(pod, name, -1) for pod, name, _ in self._removed.values())
        self.topology = self._with_placed.with_changes(removed)

    def discount(self, pod: Pod, node_name: str) -> None:
        """Do not count a placed pod in its topology domains."""
        self._count(Change(pod, node_name, -1))

    def _count(self, *changes: Change) -> None:
        self._with_placed = self._with_placed.with_changes(changes)
        if self._removed:  # thousands, where all weaker pods are away
            self.topology = self.topology.with_changes(changes)
        else:
            self.topology = self._with_placed


def beside_nominated(view: View, pod: Pod, node_name: str = "") -> View:
    """The view for a pod: preemptors of equal or higher priority hold their nominated nodes, or
    only this one.

    This respects the preemption of other schedulers (``pkg/scheduler/framework/runtime``
    RunFilterPluginsWithNominatedPods): the capacity that they freed is reserved for them. Of pods
    of one priority that wait for one node, the first does not wait for the victims of the others:
    kube-scheduler lets each of them wait for all.
    """
    if not isinstance(view, Cluster):
        return view
    among = view.nominations.at(node_name) if node_name else view.nominated.values()
    behind = view.nominations.behind(pod)
    held = [one for one in stronger(view.nominations, pod, among) if one.uid not in behind]
    if not held:
        return view
    overlay = WhatIfView(view)
    overlay.hold(held)
    own = view.nominated.get(pod.annotations.get(well_known.MIGRATION, ""))
    if own is not None and is_for(own, pod):
        overlay.nominated = {own.uid: own}
    return overlay


def stronger(nominations: Nominator, pod: Pod, among: Collection[Pod] | None = None) -> list[Pod]:
    """The nominated pods, or those ``among`` them, that reserve capacity against this pod, without
    those of its own migration.

    The pod that a migration holds capacity for is nominated as well, and counts once. A gang that
    reserves leaves its room to a pod that ends before the reservation does.
    """
    priority, nominated = pod.priority, nominations.held
    yielding = nominations.yields_to(pod)
    return [
        other
        for other in (nominated.values() if among is None else among)
        if other.priority >= priority
        and other.uid != pod.uid
        and other.uid not in yielding
        and not is_for(other, pod)
        and not (well_known.MIGRATION in other.annotations and _is_held_by_a_move(other, nominated))
    ]


def _is_held_by_a_move(pod: Pod, nominated: Mapping[str, Pod]) -> bool:
    move = nominated.get(pod.annotations.get(well_known.MIGRATION, ""))
    return move is not None and is_for(move, pod)
