"""Event -> changes -> queue: the one place where an inbox value meets the cluster state."""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.model.cut import NodeCuts
from scheduler.model.reason import Cause
from scheduler.state import event as ev
from scheduler.state.cluster import Cluster
from scheduler.state.cohort import StillRefuses
from scheduler.state.queue import Queue


def fold(cluster: Cluster, event: ev.Event) -> list[ev.Change]:
    """Apply one event; the changes say which pods wait and what could help others."""
    match event:
        case ev.PodSeen(pod):
            return cluster.see_pod(pod)
        case ev.PodVanished(uid):
            return cluster.lose_pod(uid)
        case ev.NodeSeen(node):
            return cluster.see_node(node)
        case ev.NodeVanished(name):
            return cluster.lose_node(name)
        case ev.BindEnded():
            return _bind_ended(cluster, event)
        case _:
            return _fold_rare(cluster, event)


def apart(cluster: Cluster, event: ev.Event) -> Iterator[ev.Event]:
    """A list of pods or nodes as news of each object, so that each is folded by itself."""
    match event:
        case ev.PodsListed(pods):
            listed = {pod.uid: pod for pod in pods}
            yield from [ev.PodVanished(uid) for uid in cluster.pods if uid not in listed]
            yield from map(ev.PodSeen, listed.values())
        case ev.NodesListed(nodes):
            known = {node.name: node for node in nodes}
            yield from [ev.NodeVanished(name) for name in cluster.books if name not in known]
            yield from map(ev.NodeSeen, known.values())
        case _:
            yield event


def pass_on(queue: Queue, change: ev.Change, now: float, asked: StillRefuses) -> None:
    """Tell the queue who waits, who does not any more, and who could be helped.

    ``Retry`` is its owner's: it takes the placement that failed.
    """
    match change:
        case ev.Waiting(pod):
            queue.offer(pod, now)
        case ev.Settled(uid):
            queue.settle(uid, now)
        case ev.Lifted():
            queue.lift(change, now, asked)


def _fold_rare(cluster: Cluster, event: ev.Event) -> list[ev.Change]:
    match event:
        case ev.PodsListed(pods):
            return cluster.list_pods(pods)
        case ev.NodesListed(nodes):
            return cluster.list_nodes(nodes)
        case ev.NamespaceSeen(namespace):
            return cluster.see_namespace(namespace)
        case ev.NamespaceVanished(name):
            return cluster.lose_namespace(name)
        case ev.NamespacesListed(namespaces):
            return cluster.list_namespaces(namespaces)
    return _fold_elsewhere(cluster, event)


def _fold_elsewhere(cluster: Cluster, event: ev.Event) -> list[ev.Change]:
    if isinstance(event, ev.CutNews):
        return _cut_news(cluster, event)
    match event:
        case ev.QuotaSeen(quota):
            cluster.quotas.see(quota)
            return []
        case ev.QuotasListed(quotas):
            cluster.quotas.keep_only(quotas)
            return []
    # Not in the books: the pods are gone already (state/breaker), or it is about a move.
    if isinstance(event, ev.PodRejected | ev.PastTold | ev.MoveNews):
        return []
    raise AssertionError(f"an event that nobody folds: {event!r}")


def _cut_news(cluster: Cluster, event: ev.CutNews) -> list[ev.Change]:
    match event:
        case ev.CutsSeen(cuts):
            return _see_cuts(cluster, cuts)
        case ev.CutsVanished(name):
            return _see_cuts(cluster, NodeCuts(name))
        case ev.CutsListed(listed):
            every = (*cluster.nodes.cuts.gone(listed), *listed)
            return [change for cuts in every for change in _see_cuts(cluster, cuts)]
        case ev.CutsUnwritten():
            return []  # the books know nothing of what was only asked for


def _see_cuts(cluster: Cluster, cuts: NodeCuts) -> list[ev.Change]:
    is_news = cluster.nodes.see_cuts(cuts)
    return [ev.Lifted(Cause.NODE, node_name=cuts.node_name)] if is_news else []


def _bind_ended(cluster: Cluster, event: ev.BindEnded) -> list[ev.Change]:
    """Bound: wait for the watch to confirm. Anything else: the assumption is void."""
    if event.outcome is ev.BindOutcome.BOUND or event.uid not in cluster.assumed:
        return []
    pod = cluster.pods[event.uid]
    changes = cluster.forget(event.uid)
    if event.outcome is ev.BindOutcome.GONE:
        return changes + cluster.lose_pod(event.uid)
    if event.outcome is ev.BindOutcome.TAKEN:
        return changes
    if not pod.waits_for(cluster.scheduler_name):  # it is being deleted by now
        return [*changes, ev.Settled(event.uid)]
    if event.outcome is ev.BindOutcome.UNSENT:
        return [*changes, ev.Waiting(pod)]
    return [*changes, ev.Retry(pod, event.message)]
