"""Event -> cluster state -> changes -> queue."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from scheduler.model.crd.mig_partition import NodePartitions
from scheduler.model.dra.claim import ResourceClaim
from scheduler.model.dra.objects import DraObject
from scheduler.model.pods.gang import READ_ON_DEMAND, GangKey, PodGroup
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.dra.store import DraStore
from scheduler.state.queue.equivalence_group import Concerns, ConditionAtNode
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.volumes.store import VolumeStore


def fold(cluster: Cluster, event: ev.Event) -> list[ev.Change]:
    """Apply one event; the changes name pending pods and events that may help other pods."""
    match event:
        case ev.PodUpdated(pod):
            return cluster.upsert_pod(pod)
        case ev.PodDeleted(uid):
            return cluster.delete_pod(uid)
        case ev.NodeUpdated(node):
            return cluster.upsert_node(node)
        case ev.NodeDeleted(name):
            return cluster.delete_node(name)
        case ev.BindEnded():
            return _bind_ended(cluster, event)
        case _:
            return _fold_rare(cluster, event)


def apart(cluster: Cluster, event: ev.Event) -> Iterator[ev.Event]:
    """A list of pods or nodes as one event per object, so that each is folded separately."""
    match event:
        case ev.PodsReplaced(pods):
            listed = {pod.uid: pod for pod in pods}
            yield from [ev.PodDeleted(uid) for uid in cluster.pods if uid not in listed]
            yield from map(ev.PodUpdated, listed.values())
        case ev.NodesReplaced(nodes):
            known = {node.name: node for node in nodes}
            yield from [
                ev.NodeDeleted(name) for name in cluster.nodes.node_info if name not in known
            ]
            yield from map(ev.NodeUpdated, known.values())
        case _:
            yield event


def notify_queue(
    queue: SchedulingQueue,
    change: ev.Change,
    now: float,
    condition_at: ConditionAtNode,
    concerns: Concerns,
) -> None:
    """Pass a change to the queue: pending pods, finished pods, and pods to requeue.

    The loop handles ``BindFailed``, because it has the queue entry of the failed placement.
    """
    match change:
        case ev.PodPending(pod):
            queue.add(pod, now)
        case ev.PodActivated(pod):
            queue.activate(pod, now)
        case ev.PodDone(uid):
            queue.delete(uid, now)
        case ev.ClusterEvent():
            queue.requeue_on(change, now, condition_at, concerns)
        case ev.GangChanged(key):
            queue.check_gang(key, now)


def _fold_rare(cluster: Cluster, event: ev.Event) -> list[ev.Change]:
    match event:
        case ev.PodsReplaced(pods):
            return cluster.replace_pods(pods)
        case ev.NodesReplaced(nodes):
            return cluster.replace_nodes(nodes)
        case ev.NamespaceUpdated(namespace):
            return cluster.upsert_namespace(namespace)
        case ev.NamespaceDeleted(name):
            return cluster.delete_namespace(name)
        case ev.NamespacesReplaced(namespaces):
            return cluster.replace_namespaces(namespaces)
    return _fold_elsewhere(cluster, event)


def _fold_elsewhere(cluster: Cluster, event: ev.Event) -> list[ev.Change]:
    if isinstance(event, ev.PartitionEvent):
        return _fold_partitions(cluster, event)
    if isinstance(event, ev.BudgetEvent):
        return _fold_budgets(cluster, event)
    if isinstance(event, ev.PodGroupEvent):
        return _fold_pod_groups(cluster, event)
    if isinstance(event, ev.StorageEvent):
        return _fold_storage(cluster.volumes, event)
    if isinstance(event, ev.DraEvent | ev.ClaimsReserved | ev.ClaimsReleased):
        return [*_fold_dra(cluster.dra, event), *cluster.update_devices()]
    changes: list[ev.Change] = []
    match event:
        case ev.QuotaUpdated(quota):
            cluster.quotas.upsert(quota)
        case ev.QuotasReplaced(quotas):
            cluster.quotas.replace(quotas)
        case ev.TeamsRead(table, problem):
            changes = [] if problem else cluster.set_teams(table)
        case _:
            assert isinstance(event, _HANDLED_BY_CONTROLLERS), f"no handler for {event!r}"
    return changes


#: Not part of the cluster state: breakers, migrations and other controllers handle these.
_HANDLED_BY_CONTROLLERS: Final = (
    ev.PodRejected
    | ev.PastRejectionsRead
    | ev.MigrationEvent
    | ev.PodRecreated
    | ev.PreemptionEnded
    | ev.VolumesWritten
)


def _fold_budgets(cluster: Cluster, event: ev.BudgetEvent) -> list[ev.Change]:
    """As in kube-scheduler, a budget that allows more wakes no pod."""
    match event:
        case ev.BudgetUpdated(budget):
            cluster.preemptions.upsert_budget(budget)
        case ev.BudgetDeleted(namespace, name):
            cluster.preemptions.delete_budget(namespace, name)
        case ev.BudgetsReplaced(budgets):
            cluster.preemptions.replace_budgets(budgets)
    return []


def _fold_storage(volumes: VolumeStore, event: ev.StorageEvent) -> list[ev.Change]:
    match event:
        case ev.StorageUpdated(item):
            return volumes.upsert(item)
        case ev.StorageDeleted(kind, key):
            return volumes.delete(kind, key)
        case ev.StorageReplaced(kind, items):
            return volumes.replace(kind, items)


def _fold_dra(
    store: DraStore, event: ev.DraEvent | ev.ClaimsReserved | ev.ClaimsReleased
) -> list[ev.Change]:
    match event:
        case ev.DraUpdated(item):
            _show(store, item)
            return store.upsert(item)
        case ev.DraDeleted(kind, key):
            return store.delete(kind, key)
        case ev.DraReplaced(kind, items):
            for item in items:
                _show(store, item)
            return store.replace(kind, items)
        case ev.ClaimsReserved(claims=claims) | ev.ClaimsReleased(claims=claims):
            # The next decision must see them, and the watch may show them later; or it has shown
            # already that they are gone.
            known = (one for one in claims if _is_known(store, one))
            changes = [change for one in known for change in store.upsert(one)]
            is_answer = isinstance(event, ev.ClaimsReserved)
            ended = store.end_write(event.uid) if is_answer else store.end_release(event.uid)
            return [*changes, *ended]


def _fold_pod_groups(cluster: Cluster, event: ev.PodGroupEvent) -> list[ev.Change]:
    gangs, groups = cluster.gangs, tuple[PodGroup, ...]()
    match event:
        case ev.PodGroupUpdated(group) if _is_late(cluster, group):
            return []
        case ev.PodGroupUpdated(group):
            groups, keys = (group,), gangs.upsert_group(group)
        case ev.PodGroupDeleted(namespace, name, source):
            keys = gangs.delete_group(GangKey(namespace, source, name))
        case ev.PodGroupsReplaced(groups, is_served, source):
            keys = gangs.replace_groups(groups, is_served=is_served, source=source)
    changes = [change for one in groups for change in _prioritize(cluster, one)]
    return changes + [ev.GangChanged(key) for key in keys]


def _is_late(cluster: Cluster, group: PodGroup) -> bool:
    """Whether the pods for which an owner was read are gone."""
    return group.source in READ_ON_DEMAND and cluster.gangs.at(group.key) is None


def _prioritize(cluster: Cluster, group: PodGroup) -> list[ev.Change]:
    """Members that came before the priority of their group."""
    gang = cluster.gangs.at(group.key) if group.priority is not None else None
    if gang is None:
        return []
    late = [pod for pod in gang.members.values() if pod.priority != group.priority]
    return [change for pod in late for change in cluster.upsert_pod(pod)]


def _show(store: DraStore, item: DraObject) -> None:
    if isinstance(item, ResourceClaim):
        store.versions.show(item)


def _is_known(store: DraStore, claim: ResourceClaim) -> bool:
    seen = store.claim(claim.key)
    return seen is not None and seen.uid == claim.uid


def _fold_partitions(cluster: Cluster, event: ev.PartitionEvent) -> list[ev.Change]:
    match event:
        case ev.PartitionsUpdated(partitions):
            return _upsert_partitions(cluster, partitions)
        case ev.PartitionsDeleted(name):
            return _upsert_partitions(cluster, NodePartitions(name))
        case ev.PartitionsReplaced(listed):
            every = (*cluster.nodes.partitions.delete(listed), *listed)
            return [change for one in every for change in _upsert_partitions(cluster, one)]
        case ev.PartitionsWriteFailed():
            return []  # the event carries a request only, no change


def _upsert_partitions(cluster: Cluster, partitions: NodePartitions) -> list[ev.Change]:
    is_news = cluster.nodes.upsert_partitions(partitions)
    return [ev.ClusterEvent(RequeueCause.NODE, node_name=partitions.node_name)] if is_news else []


def _bind_ended(cluster: Cluster, event: ev.BindEnded) -> list[ev.Change]:
    """Bound: wait for the watch to confirm. Any other result removes the assumption."""
    if event.outcome is ev.BindOutcome.BOUND or event.uid not in cluster.assumed:
        return []
    if event.outcome is ev.BindOutcome.UNSENT:
        return cluster.give_up(event.uid)
    pod = cluster.pods[event.uid]
    changes = cluster.forget(event.uid)
    if event.outcome is ev.BindOutcome.GONE:
        return changes + cluster.delete_pod(event.uid)
    if event.outcome is ev.BindOutcome.TAKEN:
        return changes
    if not pod.waits_for(cluster.scheduler_name):  # the pod is being deleted
        return [*changes, ev.PodDone(event.uid)]
    return [*changes, ev.BindFailed(pod, event.message)]
