"""The cluster as last seen: the one mutable picture that decisions are made on.

It folds events, has one writer (the loop) and no lock. What a placement does to it::

    pod waits --assume--> assumed --the watch shows our node--> bound
                            |  \\--the watch shows another node--> bound there
                            '--forget (Binding failed)--> pod waits again

An assumed pod holds its node's resources like a bound one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduler.model import names
from scheduler.model.node import Namespace, Node
from scheduler.model.pod import Pod
from scheduler.model.reason import Cause
from scheduler.state.allocation import recovered
from scheduler.state.broken import BrokenBooks
from scheduler.state.event import Change, Lifted, Settled, Waiting
from scheduler.state.groups import Groups
from scheduler.state.holding import holds_alike
from scheduler.state.ledger import NodeBooks
from scheduler.state.nodes import Nodes
from scheduler.state.nominations import Nominations
from scheduler.state.quotas import Quotas
from scheduler.state.siblings import Assumption, Siblings, space_of
from scheduler.state.spaces import Spaces

__all__ = ["Assumption", "Cluster"]


class Cluster:
    """Pods, nodes and namespaces, and the books of every node."""

    def __init__(
        self, scheduler_name: str = names.SCHEDULER_NAME, maps_allow: str = "labelled"
    ) -> None:
        self.scheduler_name = scheduler_name
        self.spaces = Spaces(maps_allow)
        self.namespaces = self.spaces.known
        self.namespace = self.spaces.of
        self.nodes = Nodes(scheduler_name, self.spaces.may_map)
        self.books = self.nodes.books
        self.index = self.nodes.index
        self.verdicts = self.nodes.verdicts
        self.at = self.nodes.at
        self.candidates = self.nodes.candidates
        self.resolve = self.nodes.resolve
        #: Nothing is tried out on the cluster itself (see ``decide/view.Overlay``).
        self.changed: Mapping[str, NodeBooks] = {}
        self.pods: dict[str, Pod] = {}
        self.assumed: dict[str, Assumption] = {}
        self.nominations = Nominations()
        self.nominated = self.nominations.held
        #: What admissions look at, and decisions never.
        self.quotas = Quotas()
        self.groups = Groups(self.pods)
        self._siblings = Siblings(self.pods, self.assumed)
        self.indexes_held = self._siblings.indexes_held

    # --- reading ---------------------------------------------------------------------

    def refer(self, pod: Pod) -> None:
        """Let the index tell nodes apart by the labels that this pod asks for."""
        self.index.refer(pod.label_keys, self.books)

    # --- our own decisions -----------------------------------------------------------

    def assume(self, pod: Pod, assumption: Assumption) -> None:
        """Enter a placement before its Binding is sent; the next decision sees it."""
        if pod.uid in self.assumed:
            raise BrokenBooks(f"{pod.key} is placed twice")
        self.nominations.place(pod)
        self._siblings.join(self.pods.setdefault(pod.uid, pod))
        self.assumed[pod.uid] = assumption
        self.nodes.enter(pod, assumption.node_name, assumption.devices)

    def forget(self, uid: str) -> list[Change]:
        """Take an assumption back after a failed Binding."""
        assumption = self.assumed.pop(uid, None)
        if assumption is None:
            return []
        pod = self.pods[uid]
        self.nominations.take_back(uid)
        self.nominations.note(pod, is_assumed=False)
        struck = self._strike(pod, assumption.node_name)
        return [*struck, Lifted(Cause.OWNER, pod.workload)]

    def avoid(self, node_name: str, scopes: frozenset[str]) -> list[Change]:
        """For whom a node is avoided from now on."""
        if not self.nodes.avoid(node_name, scopes):
            return []
        return [Lifted(Cause.AVOIDED, node_name=node_name)]

    # --- pods ------------------------------------------------------------------------

    def see_pod(self, pod: Pod) -> list[Change]:
        """Fold a pod's newest state."""
        if pod.is_terminal:
            return self.lose_pod(pod.uid)
        before = self.pods.get(pod.uid)
        self.pods[pod.uid] = pod
        self.groups.see(pod, before)
        is_ours = pod.scheduler_name == self.scheduler_name
        if is_ours and (before is None or before.constraints != pod.constraints):
            self.index.labels.name(before.label_keys if before else (), pod.label_keys)
            self.refer(pod)
        self.nominations.note(pod, is_assumed=pod.uid in self.assumed)
        has_left = before is not None and _place(before) != _place(pod)
        left = self._leave(before) if before and has_left else []
        self._siblings.join(pod)
        return left + self._see_living(pod, before)

    def _see_living(self, pod: Pod, before: Pod | None) -> list[Change]:
        if pod.node_name:
            return self._see_placed(pod, before)
        if pod.scheduler_name != self.scheduler_name or pod.uid in self.assumed:
            return []
        if not pod.waits_for(self.scheduler_name):
            return [Settled(pod.uid)]
        if before is not None and before.wishes() == pod.wishes():
            return []
        return [Waiting(pod)]

    def _see_placed(self, pod: Pod, before: Pod | None) -> list[Change]:
        assumption = self.assumed.pop(pod.uid, None)
        at = assumption.node_name if assumption else before.node_name if before else ""
        changes: list[Change] = [Settled(pod.uid)]
        if at and at != pod.node_name and before is not None:
            changes += self._strike(before, at)
        known = at == pod.node_name and assumption is None
        if known and before is not None and holds_alike(before, pod):
            self.books[at].renew(pod)
            return [Lifted(Cause.DEVICES, node_name=at)] if recovered(before, pod) else []
        self.nodes.enter(pod, pod.node_name, None)
        if known and before is not None:
            changes.append(Lifted(Cause.DEVICES, node_name=at))
            changes += self._freed(at, before.requests, pod.requests)
        return changes

    def lose_pod(self, uid: str) -> list[Change]:
        """Fold a pod's end: deleted, or Succeeded or Failed."""
        self.nominations.lose(uid)
        pod = self.pods.pop(uid, None)
        if pod is None:
            return []
        self.groups.lose(pod)
        if pod.scheduler_name == self.scheduler_name:
            self.index.labels.name(pod.label_keys, ())
        changes: list[Change] = [Settled(uid)]
        assumption = self.assumed.pop(uid, None)
        at = assumption.node_name if assumption else pod.node_name
        if at:
            changes += self._strike(pod, at)
        return changes + self._leave(pod)

    def _leave(self, pod: Pod) -> list[Change]:
        """The pod is gone, its owner let go of it, or it has another map: its index is free."""
        self._siblings.leave(pod)
        return [Lifted(Cause.OWNER, pod.workload)]

    def list_pods(self, pods: Iterable[Pod]) -> list[Change]:
        """Fold a whole list: what is missing from it is gone (a relist's synthetic deletes)."""
        listed = {pod.uid: pod for pod in pods}
        changes: list[Change] = []
        for uid in [uid for uid in self.pods if uid not in listed]:
            changes += self.lose_pod(uid)
        for pod in listed.values():
            changes += self.see_pod(pod)
        return changes

    def _strike(self, pod: Pod, node_name: str) -> list[Change]:
        if not self.nodes.strike(pod, node_name):
            return []
        freed = self._freed(node_name, {**pod.requests, names.PODS: 1}, {})
        return [*freed, Lifted(Cause.DEVICES, node_name=node_name)]

    def _freed(
        self, node_name: str, before: Mapping[str, int], after: Mapping[str, int]
    ) -> list[Change]:
        """What a pod holds no more of on its node."""
        what = frozenset(r for r, amount in before.items() if amount > after.get(r, 0))
        return [self.freed(node_name, what)] if what else []

    def freed(self, node_name: str, what: frozenset[str]) -> Change:
        """Resources are held no more on a node: whom that could help.

        Where GPUs are cut to order, slices of one profile are room for any other; so is a whole
        GPU that another scheduler gave away before, and one that a map named without a request.
        """
        books = self.at(node_name)
        is_cut = books is not None and books.gpus is not None
        return Lifted(Cause.FREED, node_name=node_name, what=frozenset() if is_cut else what)

    # --- nodes -----------------------------------------------------------------------

    def see_node(self, node: Node) -> list[Change]:
        """Fold a node's newest state; a heartbeat that changes nothing is no change."""
        is_new = self.at(node.name) is None
        if not self.nodes.see(node):
            return []
        # Maps that meant another node by this name mean the new one from now on.
        meant = sorted(self.nodes.aliased(node.name) - {node.name}) if is_new else []
        return [Lifted(Cause.NODE, node_name=name) for name in (node.name, *meant)]

    def lose_node(self, name: str) -> list[Change]:
        """Fold a node's deletion."""
        return [Lifted(Cause.NODE, node_name=name)] if self.nodes.lose(name) else []

    def pass_time(self, now: float) -> list[Change]:
        """Let time pass to ``now`` (Unix time): new nodes are not waited for any longer."""
        return [Lifted(Cause.NODE, node_name=name) for name in self.nodes.pass_time(now)]

    def list_nodes(self, nodes: Iterable[Node]) -> list[Change]:
        """Fold the whole list of nodes."""
        listed = {node.name: node for node in nodes}
        changes: list[Change] = []
        for name in [name for name in self.books if name not in listed]:
            changes += self.lose_node(name)
        for node in listed.values():
            changes += self.see_node(node)
        return changes

    # --- namespaces ------------------------------------------------------------------

    def see_namespace(self, namespace: Namespace) -> list[Change]:
        """Fold a namespace's newest state."""
        return self.spaces.see(namespace) + self._recount_maps()

    def lose_namespace(self, name: str) -> list[Change]:
        """Fold a namespace's deletion."""
        return self.spaces.lose(name) + self._recount_maps()

    def list_namespaces(self, namespaces: Iterable[Namespace]) -> list[Change]:
        """Fold the whole list of namespaces."""
        return self.spaces.keep_only(namespaces) + self._recount_maps()

    def _recount_maps(self) -> list[Change]:
        """Where maps became allowed or forbidden, count the placed pods' maps again."""
        turned = self.spaces.turned()
        if not turned:
            return []
        # What is only assumed was given by us, so it holds whatever its namespace may do.
        placed = [
            pod
            for pod in self.pods.values()
            if pod.namespace in turned and pod.map_text is not None and pod.node_name
        ]
        changed = {pod.node_name: None for pod in placed if self.nodes.recount(pod)}
        freed = [self.freed(name, frozenset()) for name in changed]
        return [*freed, *(Lifted(Cause.DEVICES, node_name=name) for name in changed)]


def _place(pod: Pod) -> tuple[str, tuple[str, str] | None]:
    """Among whose pods it counts, and within what its map index does."""
    return pod.workload, space_of(pod)
