"""The watched kinds, and their decoders.

A kind is vital if a decision on stale data of it could assign the same capacity twice: pods, or the
ResourceClaims of any scheduler. Quotas are read by admissions only; an unseen migration evicts no
pod; an unseen instance delays a Binding; a PersistentVolumeClaim or a volume is written only in the
version that was seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scheduler.model import well_known
from scheduler.model.crd import mig_partition_codec, migration_codec
from scheduler.state.event import Event
from scheduler.watch.decode import (
    budgets,
    csi,
    mig_partitions,
    migrations,
    objects,
    volumes,
)
from scheduler.watch.decode.dra import claims, classes, slices
from scheduler.watch.decode.groups import api_groups, coscheduling, grove, kai, volcano
from scheduler.watch.decode.groups.group_decoder import GroupDecoder
from scheduler.watch.decode.object_decoder import ObjectDecoder
from scheduler.watch.decode.quotas import resource_quotas, teams
from scheduler.watch.paged_list import Paging
from scheduler.watch.reflector import WatchSource

#: Pods of all schedulers; a terminated pod leaves the selector, which the watch reports as DELETED.
PODS: WatchSource[Event] = WatchSource(
    kind="pods",
    path="/api/v1/pods",
    decode=objects.pod_event,
    decode_list=objects.pods_listed,
    selector="status.phase!=Succeeded,status.phase!=Failed",
    paging=Paging(1000, objects.pods_joined),
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
    decode=resource_quotas.quota_event,
    decode_list=resource_quotas.quotas_listed,
    is_vital=False,
)


def _optional(
    group: str,
    kind: str,
    decoder: ObjectDecoder[Any],
    *,
    older_groups: tuple[str, ...] = (),
    is_vital: bool = False,
) -> WatchSource[Event]:
    """A kind that only some pods need; the server, or the account's role, may lack it."""
    return WatchSource(
        kind=kind,
        path=f"{group}/{kind}",
        older_paths=tuple(f"{one}/{kind}" for one in older_groups),
        decode=decoder.event,
        decode_list=decoder.listed,
        is_optional=True,
        is_vital=is_vital,
        may_be_forbidden=True,
    )


_CORE, _STORAGE, _DRA = "/api/v1", "/apis/storage.k8s.io/v1", "/apis/resource.k8s.io/v1"
STORAGE: tuple[WatchSource[Event], ...] = (
    _optional(_STORAGE, "storageclasses", csi.CLASSES),
    _optional(_STORAGE, "csidrivers", csi.CSI_DRIVERS),
    _optional(_STORAGE, "csinodes", csi.CSI_NODES),
    _optional(_STORAGE, "csistoragecapacities", csi.CAPACITIES),
    _optional(_STORAGE, "volumeattachments", csi.ATTACHMENTS),
    _optional(_CORE, "persistentvolumes", volumes.VOLUMES),
    _optional(_CORE, "persistentvolumeclaims", volumes.CLAIMS),
)
#: DeviceTaintRules of Kubernetes 1.36, and of 1.33 to 1.35, where they are switched on; 1.37 has
#: them in v1.
OLDER_RULES: Final = ("/apis/resource.k8s.io/v1beta2", "/apis/resource.k8s.io/v1alpha3")
DRA: tuple[WatchSource[Event], ...] = (
    _optional(_DRA, "deviceclasses", classes.CLASSES),
    _optional(_DRA, "resourceslices", slices.SLICES),
    _optional(_DRA, "devicetaintrules", slices.RULES, older_groups=OLDER_RULES),
    _optional(_DRA, "resourceclaims", claims.CLAIMS, is_vital=True),
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


def _pod_groups(kind: str, decoder: GroupDecoder, *paths: str) -> WatchSource[Event]:
    """Objects that define gangs, in the first version that the server has."""
    return WatchSource(
        kind=kind,
        path=paths[0],
        older_paths=paths[1:],
        decode=decoder.event,
        decode_list=decoder.listed,
        absent=decoder.absent,
        is_optional=True,
        is_vital=False,
        may_be_forbidden=True,
    )


#: The PodGroups that pods name in their spec, and those that scheduler-plugins' label names.
POD_GROUPS: Final = (
    _pod_groups(
        "podgroups.scheduling.k8s.io",
        api_groups.POD_GROUPS,
        *(f"/apis/scheduling.k8s.io/{one}/podgroups" for one in well_known.API_GROUP_VERSIONS),
    ),
    _pod_groups(
        "podgroups", coscheduling.POD_GROUPS, "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
    ),
)


#: The groups of other schedulers, by their name in the configuration.
OTHER_GROUPS: Final[Mapping[str, WatchSource[Event]]] = {
    "volcano": _pod_groups(
        "podgroups.scheduling.volcano.sh",
        volcano.POD_GROUPS,
        "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    ),
    "kai": _pod_groups(
        "podgroups.scheduling.run.ai",
        kai.POD_GROUPS,
        "/apis/scheduling.run.ai/v2alpha2/podgroups",
    ),
    "grove": _pod_groups("podgangs", grove.POD_GANGS, "/apis/scheduler.grove.io/v1alpha1/podgangs"),
}


def team_config(namespace: str, name: str) -> WatchSource[Event]:
    """The one ConfigMap with the teams, in our own namespace; without it there are no teams."""
    return WatchSource(
        kind="configmaps",
        path=f"/api/v1/namespaces/{namespace}/configmaps",
        selector=f"metadata.name={name}",
        decode=teams.teams_event,
        decode_list=teams.teams_listed,
        is_optional=True,
        is_vital=False,
        may_be_forbidden=True,
    )


def every(
    namespace: str,
    *,
    migrations: bool = True,
    preemption: bool = True,
    teams_in: str = "",
    group_sources: Iterable[str] = (),
) -> tuple[WatchSource[Event], ...]:
    """All watched kinds; ``namespace`` is our own, ``teams_in`` the ConfigMap with the teams,
    ``group_sources`` are names of ``OTHER_GROUPS``. RBAC may lack an unused kind.
    """
    optional = [migration_objects(namespace)] if migrations else []
    optional += [BUDGETS] if preemption else []
    optional += [team_config(namespace, teams_in)] if teams_in else []
    return (
        NODES,
        NAMESPACES,
        QUOTAS,
        *STORAGE,
        *DRA,
        *optional,
        partition_objects(namespace),
        *POD_GROUPS,
        *(OTHER_GROUPS[one] for one in dict.fromkeys(group_sources)),
        PODS,
    )
