"""What pods release on their nodes, as the events that requeue other pods.

A pod holds resources on the node where it is placed, and on its nominated node.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.state.cache.nodes import Nodes
from scheduler.state.event import Change, ClusterEvent
from scheduler.state.teams.books import TeamBooks


class Releases:
    """The events of releases on nodes; ``nodes`` are the cluster's own, and ``planned`` the uids of
    nominated pods that wait for certain devices.
    """

    def __init__(self, nodes: Nodes, planned: Container[str], teams: TeamBooks) -> None:
        self._nodes = nodes
        self._planned = planned
        self._teams = teams

    def of_placed(self, pod: Pod, node_name: str) -> list[Change]:
        """The resources and claims of a pod that left its node."""
        changes = [*self._all_requests(pod, node_name), *self.of_teams()]
        if pod.claims:
            changes.append(ClusterEvent(RequeueCause.CLAIM, what=frozenset(pod.claims)))
        return changes

    def of_nominated(
        self, nominated: Iterable[Pod], placed: Pod | None = None, at: str = ""
    ) -> list[Change]:
        """Pods hold nothing on their nominated nodes any more, where they are not placed there."""
        changes: list[Change] = []
        for pod in nominated:
            name = pod.nominated_node
            is_there = placed is not None and at == name and placed.requests == pod.requests
            if not is_there or pod.uid in self._planned:  # it may have got other devices
                changes += self._all_requests(pod, name)
                changes.append(ClusterEvent(RequeueCause.PODS_IN_DOMAIN, pod=pod))
                changes.append(ClusterEvent(RequeueCause.DEVICES, node_name=name))
                changes.append(ClusterEvent(RequeueCause.RESOURCE_DEVICES, node_name=name))
        return changes

    def of_resized(
        self, node_name: str, before: Mapping[str, int], after: Mapping[str, int]
    ) -> list[Change]:
        """The resources of which a pod requests less on its node than before."""
        what = frozenset(r for r, amount in before.items() if amount > after.get(r, 0))
        return [self.of_resources(node_name, what)] if what else []

    def of_resources(self, node_name: str, what: frozenset[str]) -> Change:
        """Resources became free on a node.

        With dynamic MIG, slices of one profile are room for any other; so is a whole GPU that
        another scheduler allocated before, and one that a map named without a request.
        """
        node_info = self._nodes.at(node_name)
        is_dynamic = node_info is not None and node_info.gpus is not None
        return ClusterEvent(
            RequeueCause.FREED, node_name=node_name, what=frozenset() if is_dynamic else what
        )

    def of_teams(self) -> list[Change]:
        """Teams use less than before, or are entitled to more."""
        if self._teams.table is None or not (freed := self._teams.take_freed()):
            return []
        return [ClusterEvent(RequeueCause.TEAM, what=freed)]

    def _all_requests(self, pod: Pod, node_name: str) -> list[Change]:
        what = [resource for resource, amount in pod.requests.items() if amount > 0]
        return [self.of_resources(node_name, frozenset((*what, well_known.PODS)))]
