"""What is watched, and how each kind becomes events.

Vital is what a decision could give away twice if its view were frozen. Quotas are only looked at by
admissions; a ticket that was not seen evicts nobody; an instance that was not seen is waited for.
"""

from __future__ import annotations

from scheduler.model.crd import mig_partition_codec, migration_codec
from scheduler.state.event import Event
from scheduler.watch.decode import mig_partitions, migrations, objects, quotas
from scheduler.watch.reflector import WatchSource

#: Every scheduler's pods count; pods that ended leave the selector, which reads as DELETED.
PODS: WatchSource[Event] = WatchSource(
    kind="pods",
    path="/api/v1/pods",
    decode=objects.pod_event,
    decode_list=objects.pods_listed,
    selector="status.phase!=Succeeded,status.phase!=Failed",
)
NODES: WatchSource[Event] = WatchSource(
    kind="nodes", path="/api/v1/nodes", decode=objects.node_event, decode_list=objects.nodes_listed
)
NAMESPACES: WatchSource[Event] = WatchSource(
    kind="namespaces",
    path="/api/v1/namespaces",
    decode=objects.namespace_event,
    decode_list=objects.namespaces_listed,
)
#: Those that limit GPUs; the rest is dropped as it comes in.
QUOTAS: WatchSource[Event] = WatchSource(
    kind="resourcequotas",
    path="/api/v1/resourcequotas",
    decode=quotas.quota_event,
    decode_list=quotas.quotas_listed,
    is_vital=False,
)


def tickets(namespace: str) -> WatchSource[Event]:
    """The tickets of moves, in our own namespace; a cluster may lack the kind."""
    return WatchSource(
        kind=migration_codec.PLURAL,
        path=migration_codec.path(namespace),
        decode=migrations.ticket_event,
        decode_list=migrations.tickets_listed,
        is_optional=True,
        is_vital=False,
    )


def cut_instances(namespace: str) -> WatchSource[Event]:
    """What the operators of dynamic nodes cut, in our own namespace; likewise."""
    return WatchSource(
        kind=mig_partition_codec.PLURAL,
        path=mig_partition_codec.path(namespace),
        decode=mig_partitions.cuts_event,
        decode_list=mig_partitions.cuts_listed,
        is_optional=True,
        is_vital=False,
    )


def every(namespace: str, *, moves: bool = True) -> tuple[WatchSource[Event], ...]:
    """All that is watched; ``namespace`` is our own. Without moves there is no right to tickets."""
    of_moves = (tickets(namespace),) if moves else ()
    return (NODES, NAMESPACES, QUOTAS, *of_moves, cut_instances(namespace), PODS)
