r"""The cluster as last seen: the mutable state that decisions read.

It folds events, has one writer (the loop) and no lock. The states of a placement::

    pod waits --assume--> assumed --the watch shows our node--> bound
                            |  \--the watch shows another node--> bound there
                            '--forget (Binding failed)--> pod waits again

An assumed pod holds its node's resources like a bound one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from scheduler.model import well_known
from scheduler.model.dra.claim_plan import ClaimPlan
from scheduler.model.gpu.device import Devices
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.model.teams.team import TeamTable
from scheduler.state.cache.map_indexes import Assumption, MapIndexes, space_of
from scheduler.state.cache.namespaces import NamespaceStore
from scheduler.state.cache.nodes import Nodes
from scheduler.state.cache.nominator import Nominator
from scheduler.state.cache.pod_groups import PodGroups
from scheduler.state.cache.preemptions import Preemptions
from scheduler.state.cache.quotas import Quotas
from scheduler.state.cache.releases import Releases
from scheduler.state.dra.store import DraStore
from scheduler.state.event import Change, ClusterEvent, GangChanged, PodDone, PodPending
from scheduler.state.gangs.index import GangIndex
from scheduler.state.invariant import InvariantViolation
from scheduler.state.node_info import NodeInfo
from scheduler.state.pod_allocation import has_same_allocation
from scheduler.state.reported_devices import recovered
from scheduler.state.teams.books import TeamBooks
from scheduler.state.topology.reader import TopologyReader
from scheduler.state.volumes.store import VolumeStore
from scheduler.state.whole_list import fold_list

__all__ = ["Assumption", "Cluster"]


class Cluster:
    """Pods, nodes and namespaces.

    The parts are public. The methods under "reading" make the cluster a ``decide/view.View``.
    """

    def __init__(
        self,
        scheduler_name: str = well_known.SCHEDULER_NAME,
        maps_allow: str = "labelled",
        node_labels: Collection[str] = (),
        index_attributes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.scheduler_name = scheduler_name
        self.namespaces = NamespaceStore(maps_allow)
        self.volumes = VolumeStore()
        self.dra = DraStore(index_attributes)
        self.teams = TeamBooks(self.namespaces)
        self.nodes = Nodes(scheduler_name, self.namespaces, self.volumes, self.dra, self.teams)
        self.pods: dict[str, Pod] = {}
        self.assumed: dict[str, Assumption] = {}
        self.nominations = Nominator()
        self.preemptions = Preemptions()
        #: Read by admissions, never by decisions.
        self.quotas = Quotas()
        self.groups = PodGroups(self.pods)
        self.gangs = GangIndex(scheduler_name)
        self._map_indexes = MapIndexes(self.pods, self.assumed)
        self._releases = Releases(self.nodes, self.nominations.plans, self.teams)
        # Attributes of the view, which decisions read often.
        self.index = self.nodes.index
        #: One node by its name, or None if it does not exist.
        self.at = self.nodes.at
        #: Label keys that plugins read for every pod count as named by one permanent pod.
        self.index.labels.name((), node_labels)
        self.filter_results = self.nodes.filter_results
        self.nominated = self.nominations.held
        self.topology = TopologyReader(self.nodes.topology)
        #: Only a ``decide/view.WhatIfView`` has changed nodes.
        self.changed: Mapping[str, NodeInfo] = {}

    # --- reading ---------------------------------------------------------------------

    def candidates(self) -> Iterator[NodeInfo]:
        """All nodes that exist."""
        return self.nodes.candidates()

    def resolve(self, token: str) -> frozenset[str]:
        """The nodes that match a map's node name."""
        return self.nodes.resolve(token)

    def namespace(self, name: str) -> Namespace:
        """A namespace; an unknown one has no labels."""
        return self.namespaces.of(name)

    def indexes_held(self, pod: Pod) -> Mapping[int, Pod]:
        """Map index -> live placed pod of the pod's workload that has the same map text."""
        return self._map_indexes.indexes_held(pod)

    def track_label_keys(self, pod: Pod) -> None:
        """Let the index distinguish nodes by the labels that this pod names."""
        self.index.track_label_keys(pod.label_keys, self.nodes.node_info)

    # --- our own decisions -----------------------------------------------------------

    def assume(self, pod: Pod, assumption: Assumption) -> list[Change]:
        """Add a placement before its Binding is sent; the next decision sees it."""
        if pod.uid in self.assumed:
            raise InvariantViolation(f"{pod.key} is placed twice")
        left = self._releases.of_nominated(self.nominations.place(pod), pod, assumption.node_name)
        self._join(self.pods.setdefault(pod.uid, pod))
        self.assumed[pod.uid] = assumption
        if pod.group:
            self.gangs.place(pod)
        generation = self.topology.generation
        self.nodes.add_pod(pod, assumption.node_name, assumption.devices)
        if assumption.volumes is not None:
            self.volumes.assume(pod.uid, assumption.volumes)
        if assumption.claims is not None:
            self.dra.assume(pod.uid, assumption.claims)
            self.nodes.update_devices()
        return [*left, *self._in_domains(generation, pod)]

    def forget(self, uid: str) -> list[Change]:
        """Remove an assumption after a failed Binding."""
        assumption = self.assumed.pop(uid, None)
        if assumption is None:
            return []
        pod = self.pods[uid]
        if pod.group:
            self.gangs.take_back(pod)
        self.nominations.take_back(uid)
        self.nominations.note(pod, is_assumed=False)
        freed = self._remove_from_node(pod, assumption.node_name)
        freed += [*self.volumes.restore(uid), *self.dra.restore(uid), *self.update_devices()]
        return [*freed, ClusterEvent(RequeueCause.OWNER, pod.workload)]

    def give_up(self, uid: str) -> list[Change]:
        """Remove an assumption without a failure: the pod waits for a node again, or is done."""
        changes = self.forget(uid)
        pod = self.pods[uid]
        return [*changes, PodPending(pod) if pod.waits_for(self.scheduler_name) else PodDone(uid)]

    def nominate(
        self, pod: Pod, node_name: str, devices: Devices, plan: ClaimPlan | None = None
    ) -> list[Change]:
        """Our own preemptor waits for a node, before its status says so."""
        ended = self.nominations.nominate(pod, node_name, devices, plan)
        return self._releases.of_nominated(ended)

    def expect_devices(self, uid: str, plan: ClaimPlan | None) -> list[Change]:
        """What a nominated pod's claims are to get; None where that is not known any more."""
        former = self.nominations.expect(uid, plan)
        name = former.node_name if former is not None else ""
        return [ClusterEvent(RequeueCause.RESOURCE_DEVICES, node_name=name)] if name else []

    def withdraw_nomination(self, uid: str) -> list[Change]:
        """A pod waits for no node any more, before its status says so."""
        return self._releases.of_nominated(self.nominations.withdraw(uid))

    def release_migration(self, migration_id: str) -> list[Change]:
        """Nothing is held any more for the replacement of a migration."""
        return self._releases.of_nominated(self.nominations.release(migration_id))

    def avoid(self, node_name: str, scopes: frozenset[str]) -> list[Change]:
        """Set which pods avoid a node."""
        if not self.nodes.avoid(node_name, scopes):
            return []
        return [ClusterEvent(RequeueCause.AVOIDED, node_name=node_name)]

    # --- pods ------------------------------------------------------------------------

    def upsert_pod(self, pod: Pod) -> list[Change]:
        """Fold a pod's newest state."""
        if pod.is_terminal:
            return self.delete_pod(pod.uid)
        before = self.pods.get(pod.uid)
        if pod.scheduling_group:
            pod = self.gangs.prioritized(pod)
        self.pods[pod.uid] = pod
        started: list[Change] = []
        if pod.group or (before is not None and before.group):
            self.groups.upsert(pod, before)
            is_placed = bool(pod.node_name) or pod.uid in self.assumed
            key = self.gangs.upsert(pod, before, is_placed=is_placed)
            started = [GangChanged(key)] if key is not None else []
        if pod.topology is not None or (before is not None and before.topology is not None):
            self.topology.families.upsert(pod, before)
        if pod.resource_claims:
            self.dra.users.add(pod)
        is_ours = pod.scheduler_name == self.scheduler_name
        if is_ours and (before is None or before.constraints != pod.constraints):
            named = before.label_keys if before else ()
            if named or pod.label_keys:
                self.index.labels.name(named, pod.label_keys)
            self.track_label_keys(pod)
        left: list[Change] = []
        if pod.node_name or pod.nominated_node or self.nominated:
            ended = self.nominations.note(pod, is_assumed=pod.uid in self.assumed)
            left = self._releases.of_nominated(ended, pod, pod.node_name)
        if before is not None and _place(before) != _place(pod):
            left += self._leave(before)
        self._join(pod)
        return left + self._upsert_living(pod, before) + started

    def _join(self, pod: Pod) -> None:
        if pod.map_text is not None:
            self._map_indexes.join(pod)

    def _upsert_living(self, pod: Pod, before: Pod | None) -> list[Change]:
        if pod.node_name:
            return self._upsert_placed(pod, before)
        if pod.scheduler_name != self.scheduler_name or pod.uid in self.assumed:
            return []
        if not pod.waits_for(self.scheduler_name):
            return [PodDone(pod.uid)]
        if before is not None and before.decision_inputs() == pod.decision_inputs():
            return []
        return [PodPending(pod)]

    def _upsert_placed(self, pod: Pod, before: Pod | None) -> list[Change]:
        assumption = self.assumed.pop(pod.uid, None)
        at = assumption.node_name if assumption else before.node_name if before else ""
        # A pod that was not known is in no queue.
        changes: list[Change] = [PodDone(pod.uid)] if before is not None else []
        if assumption is not None:
            is_bound = at == pod.node_name
            changes += self.volumes.confirm(pod.uid, is_bound=is_bound)
            changes += self.dra.confirm(pod.uid, is_bound=is_bound)
            changes += self.update_devices()
        if at and at != pod.node_name and before is not None:
            changes += self._remove_from_node(before, at)
        known = at == pod.node_name and assumption is None
        generation = self.topology.generation
        if known and before is not None and has_same_allocation(before, pod):
            self.nodes.renew(pod)
            read = [ClusterEvent(RequeueCause.DEVICES, node_name=at)]
            counted = self._in_domains(generation, pod)
            return [*counted, *(read if recovered(before, pod) else ())]
        self.nodes.add_pod(pod, pod.node_name, None)
        changes += self._in_domains(generation, *((before, pod) if before else (pod,)))
        if known and before is not None:
            changes.append(ClusterEvent(RequeueCause.DEVICES, node_name=at))
            changes += self._releases.of_resized(at, before.requests, pod.requests)
        return changes

    def delete_pod(self, uid: str) -> list[Change]:
        """Fold the end of a pod: deleted, Succeeded or Failed."""
        left = self._releases.of_nominated(self.nominations.delete_pod(uid))
        pod = self.pods.pop(uid, None)
        if pod is None:
            return left
        if pod.group:
            self.groups.delete(pod)
            self.gangs.delete(pod)
        if pod.topology is not None:
            self.topology.families.delete(pod)
        if pod.label_keys and pod.scheduler_name == self.scheduler_name:
            self.index.labels.name(pod.label_keys, ())
        changes: list[Change] = [PodDone(uid), *left, *self.dra.leave(pod)]
        assumption = self.assumed.pop(uid, None)
        at = assumption.node_name if assumption else pod.node_name
        if at:
            changes += self._remove_from_node(pod, at)
        if assumption is not None:
            changes += [*self.volumes.restore(uid), *self.dra.restore(uid)]
        changes += [*self.dra.end_pod(uid), *self.update_devices()]
        return changes + self._leave(pod)

    def update_devices(self) -> list[Change]:
        """Count the devices of DRA drivers again where claims, slices or classes changed."""
        freed = self.nodes.update_devices()
        teams = self._releases.of_teams()
        return (
            [*teams, *(self._releases.of_resources(name, what) for name, what in freed.items())]
            if freed
            else teams
        )

    def _leave(self, pod: Pod) -> list[Change]:
        """An index becomes free: the pod was deleted, its owner released it, or its map changed."""
        self._map_indexes.leave(pod)
        return [ClusterEvent(RequeueCause.OWNER, pod.workload)]

    def replace_pods(self, pods: Iterable[Pod]) -> list[Change]:
        """Fold a whole list: a pod that is missing from it is deleted."""
        listed = {pod.uid: pod for pod in pods}
        return fold_list(self.pods, listed, self.delete_pod, self.upsert_pod)

    def _remove_from_node(self, pod: Pod, node_name: str) -> list[Change]:
        generation = self.topology.generation
        if not self.nodes.remove_pod(pod, node_name):
            return []
        left = [*self._releases.of_placed(pod, node_name), *self._in_domains(generation, pod)]
        return [*left, ClusterEvent(RequeueCause.DEVICES, node_name=node_name)]

    # --- nodes -----------------------------------------------------------------------

    def upsert_node(self, node: Node) -> list[Change]:
        """Fold a node's newest state; a heartbeat without other changes is ignored."""
        is_new = self.at(node.name) is None
        generation = self.topology.generation
        is_better = self.nodes.upsert(node)
        domains = self._in_domains(generation) + self._releases.of_teams()
        if not is_better:
            return domains
        # Maps that named another node by this alias now name the new node.
        meant = sorted(self.nodes.aliased(node.name) - {node.name}) if is_new else []
        names = (node.name, *meant)
        return [*domains, *(ClusterEvent(RequeueCause.NODE, node_name=name) for name in names)]

    def delete_node(self, name: str) -> list[Change]:
        """Fold a node's deletion."""
        generation = self.topology.generation
        if not self.nodes.delete(name):
            return []
        domains = self._in_domains(generation)
        return [*domains, ClusterEvent(RequeueCause.NODE, node_name=name)]

    def _in_domains(self, generation: int, *pods: Pod) -> list[Change]:
        """What changed in topology domains since a generation, by these placed pods."""
        if generation == self.topology.generation:
            return []
        every = [ClusterEvent(RequeueCause.PODS_IN_DOMAIN, pod=pod) for pod in pods]
        return [*every] or [ClusterEvent(RequeueCause.PODS_IN_DOMAIN)]

    def pass_time(self, now: float) -> list[Change]:
        """Advance the time to ``now`` (Unix time): old nodes stop waiting for their MIG layout."""
        self.teams.now = now
        return [
            ClusterEvent(RequeueCause.NODE, node_name=name) for name in self.nodes.pass_time(now)
        ]

    def replace_nodes(self, nodes: Iterable[Node]) -> list[Change]:
        """Fold the whole list of nodes."""
        listed = {node.name: node for node in nodes}
        return fold_list(self.nodes.node_info, listed, self.delete_node, self.upsert_node)

    # --- namespaces ------------------------------------------------------------------

    def upsert_namespace(self, namespace: Namespace) -> list[Change]:
        """Fold a namespace's newest state."""
        return self.namespaces.upsert(namespace) + self._recount()

    def delete_namespace(self, name: str) -> list[Change]:
        """Fold a namespace's deletion."""
        return self.namespaces.delete(name) + self._recount()

    def replace_namespaces(self, namespaces: Iterable[Namespace]) -> list[Change]:
        """Fold the whole list of namespaces."""
        return self.namespaces.replace(namespaces) + self._recount()

    def _recount(self) -> list[Change]:
        """What placed pods count for where a namespace changed: their terms, and their maps."""
        generation = self.topology.generation
        relabelled = self.namespaces.relabelled()
        for name in relabelled:
            self.nodes.topology.relabel_namespace(name)
        table = self.teams.table_now() if relabelled else None
        teams = self.set_teams(table) if table or (relabelled and self.teams.table) else []
        return self._in_domains(generation) + self._recount_maps() + teams

    def set_teams(self, table: TeamTable | None) -> list[Change]:
        """Other teams, or other namespaces in them: what they use is counted again."""
        self.teams.rebuild(table, self.nodes.node_info.values(), self.dra)
        self.teams.take_freed()
        return [ClusterEvent(RequeueCause.TEAM)]

    def _recount_maps(self) -> list[Change]:
        """After namespaces were allowed or forbidden to use maps, recompute the allocations of
        placed pods with maps.
        """
        turned = self.namespaces.turned()
        if not turned:
            return []
        # An assumed pod was placed by this scheduler, so it holds its devices independently of its
        # namespace.
        placed = [
            pod
            for pod in self.pods.values()
            if pod.namespace in turned and pod.map_text is not None and pod.node_name
        ]
        changed = {pod.node_name: None for pod in placed if self.nodes.recount(pod)}
        freed = [self._releases.of_resources(name, frozenset()) for name in changed]
        return [*freed, *(ClusterEvent(RequeueCause.DEVICES, node_name=name) for name in changed)]


def _place(pod: Pod) -> tuple[str, tuple[str, str] | None]:
    """The workload of the pod, and the scope within which its map index is unique."""
    return pod.workload, space_of(pod)
