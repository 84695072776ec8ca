"""The watched kinds, and their decoders.

A kind is vital if a decision on stale data of it could assign the same capacity twice. Quotas are
read by admissions only; an unseen migration evicts no pod; an unseen instance delays a Binding; a
claim or a volume is written only in the version that was seen.
"""

from __future__ import annotations

from scheduler.model.crd import mig_partition_codec, migration_codec
from scheduler.state.event import Event
from scheduler.watch.decode import (
    budgets,
    csi,
    mig_partitions,
    migrations,
    objects,
    quotas,
    volumes,
)
from scheduler.watch.decode.storage_decoder import StorageDecoder
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


def _storage(group: str, kind: str, decoder: StorageDecoder) -> WatchSource[Event]:
    """A kind that only pods with volumes need; the server, or the account's role, may lack it."""
    return WatchSource(
        kind=kind,
        path=f"{group}/{kind}",
        decode=decoder.event,
        decode_list=decoder.listed,
        is_optional=True,
        is_vital=False,
        may_be_forbidden=True,
    )


_CORE, _STORAGE = "/api/v1", "/apis/storage.k8s.io/v1"
STORAGE: tuple[WatchSource[Event], ...] = (
    _storage(_STORAGE, "storageclasses", csi.CLASSES),
    _storage(_STORAGE, "csidrivers", csi.CSI_DRIVERS),
    _storage(_STORAGE, "csinodes", csi.CSI_NODES),
    _storage(_STORAGE, "csistoragecapacities", csi.CAPACITIES),
    _storage(_STORAGE, "volumeattachments", csi.ATTACHMENTS),
    _storage(_CORE, "persistentvolumes", volumes.VOLUMES),
    _storage(_CORE, "persistentvolumeclaims", volumes.CLAIMS),
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


#: Read by preemption only, which counts them as kube-scheduler does: as best effort.
BUDGETS: WatchSource[Event] = WatchSource(
    kind="poddisruptionbudgets",
    path="/apis/policy/v1/poddisruptionbudgets",
    decode=budgets.budget_event,
    decode_list=budgets.budgets_listed,
    is_optional=True,
    is_vital=False,
)


def every(
    namespace: str, *, migrations: bool = True, preemption: bool = True
) -> tuple[WatchSource[Event], ...]:
    """All watched kinds; ``namespace`` is our own. RBAC may lack an unused kind."""
    optional = [migration_objects(namespace)] if migrations else []
    optional += [BUDGETS] if preemption else []
    return (NODES, NAMESPACES, QUOTAS, *STORAGE, *optional, partition_objects(namespace), PODS)
