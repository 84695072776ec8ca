"""The watched kinds, and their decoders.

A kind is vital if a decision on stale data of it could assign the same capacity twice. Quotas are
read by admissions only; an unseen migration evicts no pod; an unseen instance delays a Binding.
"""

from __future__ import annotations

from scheduler.model.crd import mig_partition_codec, migration_codec
from scheduler.state.event import Event
from scheduler.watch.decode import mig_partitions, migrations, objects, quotas
from scheduler.watch.reflector import WatchSource

#: Pods of all schedulers; a terminated pod leaves the selector, which the watch reports as DELETED.
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
#: Quotas that limit GPUs; others are dropped at arrival.
QUOTAS: WatchSource[Event] = WatchSource(
    kind="resourcequotas",
    path="/api/v1/resourcequotas",
    decode=quotas.quota_event,
    decode_list=quotas.quotas_listed,
    is_vital=False,
)


def migration_objects(namespace: str) -> WatchSource[Event]:
    """The migration objects in our own namespace; a cluster may lack the kind."""
    return WatchSource(
        kind=migration_codec.PLURAL,
        path=migration_codec.path(namespace),
        decode=migrations.migration_event,
        decode_list=migrations.migrations_listed,
        is_optional=True,
        is_vital=False,
    )


def partition_objects(namespace: str) -> WatchSource[Event]:
    """The MIG instances that operators of dynamic nodes report; likewise."""
    return WatchSource(
        kind=mig_partition_codec.PLURAL,
        path=mig_partition_codec.path(namespace),
        decode=mig_partitions.partitions_event,
        decode_list=mig_partitions.partitions_listed,
        is_optional=True,
        is_vital=False,
    )


def every(namespace: str, *, migrations: bool = True) -> tuple[WatchSource[Event], ...]:
    """All watched kinds; ``namespace`` is our own. RBAC may lack an unused kind."""
    optional = (migration_objects(namespace),) if migrations else ()
    return (NODES, NAMESPACES, QUOTAS, *optional, partition_objects(namespace), PODS)
