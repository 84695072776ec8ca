"""The state of one scheduler: everything that decisions read. The loop is its only writer."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from types import MappingProxyType

import msgspec

from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from scheduler.state.queue.equivalence_group import EquivalenceOf, equivalence_class_of
from scheduler.state.queue.gang_queue import GangQueue
from scheduler.state.reservations import Reservations
from scheduler.state.teams.turns import TeamTurns
from scheduler.state.webhook_scope import WebhookScope


class SchedulerState(msgspec.Struct, frozen=True):
    """The cluster, the pending pods and the reservations of admitted pods."""

    cluster: Cluster
    queue: GangQueue
    reservations: Reservations


def empty_state(
    scheduler_name: str,
    maps_allow: str = "labelled",
    scope: WebhookScope | None = None,
    *,
    node_labels: Collection[str] = (),
    equivalence_of: EquivalenceOf = equivalence_class_of,
    index_attributes: Mapping[str, str] = MappingProxyType({}),
    teams_of_namespaces: bool = False,
) -> SchedulerState:
    """The state before the first event.

    ``node_labels`` are the keys that plugins read for every pod; ``equivalence_of`` returns
    everything that plugins read of a pod. ``index_attributes`` has the attribute with the index of
    a DRA device, by driver. With ``teams_of_namespaces`` annotations of Namespaces have the quotas.
    """
    cluster = Cluster(scheduler_name, maps_allow, node_labels, index_attributes)
    cluster.teams.of_namespaces = teams_of_namespaces

    def equivalence_class(pod: Pod) -> Hashable:
        terms = cluster.topology.terms_key(pod)
        return equivalence_of(pod) if terms is None else (equivalence_of(pod), terms)

    turns = TeamTurns(cluster.teams, cluster.gangs)
    queue = GangQueue(cluster.gangs, equivalence_class, turns)
    return SchedulerState(cluster, queue, Reservations(scope, cluster.namespaces))
