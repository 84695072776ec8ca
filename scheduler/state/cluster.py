"""The cluster as last seen: the one mutable picture that decisions are made on.

It folds events, has one writer (the loop) and no lock. What a placement does to it::

    pod waits --assume--> assumed --the watch shows our node--> bound
                            |  \\--the watch shows another node--> bound there
                            '--forget (Binding failed)--> pod waits again

An assumed pod holds its node's resources like a bound one. A node that was deleted while
pods still name it stays as books without a node: never a candidate, never forgotten.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from scheduler.model import names
from scheduler.model.device import Devices
from scheduler.model.node import Namespace, Node
from scheduler.model.pod import Pod
from scheduler.model.reason import Cause
from scheduler.state.event import Change, Lifted, Settled, Waiting
from scheduler.state.ledger import NodeBooks, holding_of


class Assumption(msgspec.Struct, frozen=True):
    """Where we said a pod goes, before the API server confirmed it."""

    node_name: str
    devices: Devices
    index: int | None = None


class Cluster:
    """Pods, nodes and namespaces, and the books of every node."""

    def __init__(self, scheduler_name: str = names.SCHEDULER_NAME) -> None:
        self.scheduler_name = scheduler_name
        self.books: dict[str, NodeBooks] = {}
        self.pods: dict[str, Pod] = {}
        self.assumed: dict[str, Assumption] = {}
        self.namespaces: dict[str, Namespace] = {}
        self._siblings: dict[str, set[str]] = {}
        self._aliases: dict[str, set[str]] = {}

    # --- reading ---------------------------------------------------------------------

    def candidates(self) -> Iterator[NodeBooks]:
        """The books of every node that exists."""
        return (books for books in self.books.values() if books.node is not None)

    def node_count(self) -> int:
        """Number of nodes that exist."""
        return sum(1 for _ in self.candidates())

    def resolve(self, token: str) -> frozenset[str]:
        """The nodes that a map's node name fits: by real name or by an alias label."""
        found = set(self._aliases.get(token, ()))
        if token in self.books and self.books[token].node is not None:
            found.add(token)
        return frozenset(found)

    def namespace(self, name: str) -> Namespace:
        """A namespace; one that is not known yet has no labels."""
        return self.namespaces.get(name) or Namespace(name=name)

    def indexes_held(self, workload: str) -> Mapping[int, Pod]:
        """Map index -> the live, placed pod of this workload that holds it."""
        held: dict[int, Pod] = {}
        for uid in self._siblings.get(workload, ()):
            pod = self.pods[uid]
            index = self._index_of(pod)
            if index is not None:
                held[index] = pod
        return held

    def _index_of(self, pod: Pod) -> int | None:
        if assumption := self.assumed.get(pod.uid):
            return assumption.index
        text = pod.annotations.get(names.POD_INDEX, "") if pod.node_name else ""
        return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None

    # --- our own decisions -----------------------------------------------------------

    def assume(self, pod: Pod, assumption: Assumption) -> None:
        """Enter a placement before its Binding is sent; the next decision sees it."""
        assert pod.uid not in self.assumed, f"{pod.key} is assumed twice"
        self.pods[pod.uid] = pod
        self.assumed[pod.uid] = assumption
        self._enter(pod, assumption.node_name, assumption.devices)

    def forget(self, uid: str) -> list[Change]:
        """Take an assumption back after a failed Binding."""
        assumption = self.assumed.pop(uid, None)
        if assumption is None:
            return []
        return self._strike(self.pods[uid], assumption.node_name)

    # --- pods ------------------------------------------------------------------------

    def see_pod(self, pod: Pod) -> list[Change]:
        """Fold a pod's newest state."""
        if pod.is_terminal:
            return self.lose_pod(pod.uid)
        before = self.pods.get(pod.uid)
        self.pods[pod.uid] = pod
        self._siblings.setdefault(pod.workload, set()).add(pod.uid)
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
        if known and before is not None and _holds_alike(before, pod):
            return []
        self._enter(pod, pod.node_name, None)
        if known and before is not None:
            changes.append(Lifted(Cause.DEVICES))
            if before.requests != pod.requests:
                changes.append(Lifted(Cause.FREED))
        return changes

    def lose_pod(self, uid: str) -> list[Change]:
        """Fold a pod's end: deleted, or Succeeded or Failed."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return []
        siblings = self._siblings.get(pod.workload, set())
        siblings.discard(uid)
        if not siblings:
            self._siblings.pop(pod.workload, None)
        changes: list[Change] = [Settled(uid)]
        assumption = self.assumed.pop(uid, None)
        at = assumption.node_name if assumption else pod.node_name
        if at:
            changes += self._strike(pod, at)
        changes.append(Lifted(Cause.OWNER, pod.workload))
        return changes

    def list_pods(self, pods: Iterable[Pod]) -> list[Change]:
        """Fold a whole list: what is missing from it is gone (a relist's synthetic deletes)."""
        listed = {pod.uid: pod for pod in pods}
        changes: list[Change] = []
        for uid in [uid for uid in self.pods if uid not in listed]:
            changes += self.lose_pod(uid)
        for pod in listed.values():
            changes += self.see_pod(pod)
        return changes

    def _enter(self, pod: Pod, node_name: str, devices: Devices | None) -> None:
        books = self.books.get(node_name)
        if books is None:
            books = self.books[node_name] = NodeBooks(None)
        books.add(pod, holding_of(pod, devices, self.scheduler_name))

    def _strike(self, pod: Pod, node_name: str) -> list[Change]:
        books = self.books.get(node_name)
        if books is None or books.remove(pod.uid) is None:
            return []
        if books.node is None and not books.pods:
            del self.books[node_name]
        return [Lifted(Cause.FREED), Lifted(Cause.DEVICES)]

    # --- nodes and namespaces --------------------------------------------------------

    def see_node(self, node: Node) -> list[Change]:
        """Fold a node's newest state; a heartbeat that changes nothing is no change."""
        books = self.books.get(node.name)
        if books is None:
            books = self.books[node.name] = NodeBooks(node)
        elif books.node == node:
            return []
        elif books.node is not None:
            self._unalias(books.node)
        books.node = node
        for alias in _aliases(node):
            self._aliases.setdefault(alias, set()).add(node.name)
        return [Lifted(Cause.NODE)]

    def lose_node(self, name: str) -> list[Change]:
        """Fold a node's deletion; its pods' books survive until the pods are gone."""
        books = self.books.get(name)
        if books is None or books.node is None:
            return []
        self._unalias(books.node)
        books.node = None
        if not books.pods:
            del self.books[name]
        return [Lifted(Cause.NODE)]

    def list_nodes(self, nodes: Iterable[Node]) -> list[Change]:
        """Fold the whole list of nodes."""
        listed = {node.name: node for node in nodes}
        changes: list[Change] = []
        for name in [name for name in self.books if name not in listed]:
            changes += self.lose_node(name)
        for node in listed.values():
            changes += self.see_node(node)
        return changes

    def _unalias(self, node: Node) -> None:
        for alias in _aliases(node):
            with contextlib.suppress(KeyError):
                self._aliases[alias].discard(node.name)

    def see_namespace(self, namespace: Namespace) -> list[Change]:
        """Fold a namespace's newest state."""
        if self.namespaces.get(namespace.name) == namespace:
            return []
        self.namespaces[namespace.name] = namespace
        return [Lifted(Cause.NAMESPACE, namespace.name)]

    def lose_namespace(self, name: str) -> list[Change]:
        """Fold a namespace's deletion."""
        self.namespaces.pop(name, None)
        return []

    def list_namespaces(self, namespaces: Iterable[Namespace]) -> list[Change]:
        """Fold the whole list of namespaces."""
        listed = {namespace.name: namespace for namespace in namespaces}
        self.namespaces = {n: ns for n, ns in self.namespaces.items() if n in listed}
        return [change for ns in listed.values() for change in self.see_namespace(ns)]


def _aliases(node: Node) -> set[str]:
    return {node.labels[key] for key in names.NODE_ALIASES if key in node.labels}


def _holds_alike(before: Pod, after: Pod) -> bool:
    return (
        before.requests == after.requests
        and before.annotations == after.annotations
        and before.labels == after.labels
        and before.host_ports == after.host_ports
    )
