"""What is watched, and how each kind becomes events."""

from __future__ import annotations

from scheduler.watch import wire
from scheduler.watch.reflector import Source

#: Every scheduler's pods count; pods that ended leave the selector, which reads as DELETED.
PODS = Source(
    kind="pods",
    path="/api/v1/pods",
    decode=wire.pod_event,
    decode_list=wire.pods_listed,
    selector="status.phase!=Succeeded,status.phase!=Failed",
)
NODES = Source(
    kind="nodes", path="/api/v1/nodes", decode=wire.node_event, decode_list=wire.nodes_listed
)
NAMESPACES = Source(
    kind="namespaces",
    path="/api/v1/namespaces",
    decode=wire.namespace_event,
    decode_list=wire.namespaces_listed,
)
ALL = (NODES, NAMESPACES, PODS)
