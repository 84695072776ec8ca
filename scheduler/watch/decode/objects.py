"""The bytes of pods, nodes and namespaces -> events.

The undecodable fields of an object are listed in its ``unread`` (``watch/decode/unreadable``). So
one object neither stops the others nor counts as one without allocations. Bytes that are no object
at all raise NoObject: then the connection is not trusted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

import msgspec

from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.node import Namespace, Node
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.watch.decode import unreadable
from scheduler.watch.decode.nodes import NAMESPACE, NODE, to_namespace, to_node
from scheduler.watch.decode.pods import POD, to_pod
from scheduler.watch.decode.unreadable import NotAnObject, identity

T = TypeVar("T")


def read_pod(content: bytes | msgspec.Raw) -> Pod:
    """The decodable part of a pod; or NoObject."""
    try:
        pod = to_pod(POD.decode(content))
    except UNREADABLE as problem:
        pod = unreadable.pod(bytes(content), problem)
    return _named(pod, pod.name and pod.uid)


def read_node(content: bytes | msgspec.Raw) -> Node:
    """The decodable part of a node; or NoObject."""
    try:
        node = to_node(NODE.decode(content))
    except UNREADABLE as problem:
        node = unreadable.node(bytes(content), problem)
    return _named(node, node.name)


def read_namespace(content: bytes | msgspec.Raw) -> Namespace:
    """The decodable part of a namespace; or NoObject."""
    try:
        namespace = to_namespace(NAMESPACE.decode(content))
    except UNREADABLE as problem:
        namespace = unreadable.namespace(bytes(content), problem)
    return _named(namespace, namespace.name)


def pod_event(content: bytes, is_gone: bool) -> ev.Event:
    """The event of a line of the pods' watch."""
    return ev.PodDeleted(_uid(content)) if is_gone else ev.PodUpdated(read_pod(content))


def node_event(content: bytes, is_gone: bool) -> ev.Event:
    """The event of a line of the nodes' watch."""
    return ev.NodeDeleted(identity(content)[1]) if is_gone else ev.NodeUpdated(read_node(content))


def namespace_event(content: bytes, is_gone: bool) -> ev.Event:
    """The event of a line of the namespaces' watch."""
    if is_gone:
        return ev.NamespaceDeleted(identity(content)[1])
    return ev.NamespaceUpdated(read_namespace(content))


def pods_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The event of a list of pods."""
    return ev.PodsReplaced(tuple(map(read_pod, items)))


def pods_joined(pages: Sequence[ev.Event]) -> ev.Event:
    """The event of a list from those of its pages."""
    found = (page.pods for page in pages if isinstance(page, ev.PodsReplaced))
    return ev.PodsReplaced(tuple(chain.from_iterable(found)))


def nodes_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The event of a list of nodes."""
    return ev.NodesReplaced(tuple(map(read_node, items)))


def namespaces_listed(items: Iterable[msgspec.Raw]) -> ev.Event:
    """The event of a list of namespaces."""
    return ev.NamespacesReplaced(tuple(map(read_namespace, items)))


def _uid(content: bytes) -> str:
    uid = identity(content)[2]
    return _named(uid, uid)


def _named(found: T, name: str) -> T:
    if not name:
        raise NotAnObject("no object of the API: it has no name or no uid")
    return found
