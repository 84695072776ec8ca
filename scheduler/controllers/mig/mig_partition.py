"""Placements that wait for MIG instances: requested, confirmed, then bound or dropped.

::

    PendingPlacement --requested--every instance Ready and advertised--> the step is complete
                        |--an instance Failed--> its GPU is in backoff, the pod is retried
                        '--no status in time---> the node's GPUs are in backoff, likewise

Meanwhile the pod is assumed on its node, so no other pod gets its slices. Only the leader requests
instances. A new leader has no pending placements: it decides again, and the instances created
meanwhile are idle ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec
import structlog

from scheduler.controllers.mig.mig_config import MigConfigController
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.controllers.pending_placements import PendingPlacements
from scheduler.decide.mig import partition_status
from scheduler.framework.decision import CreateInstances, PendingPlacement
from scheduler.model.actions import (
    CompleteStep,
    RecordPodEvent,
    RequestPartitions,
)
from scheduler.model.crd.mig_partition import PartitionRequest
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.model.timestamps import rfc3339
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.breakers.gpu_backoff import GpuBackoff
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import NOTHING, Effects

TIMEOUT_S: Final = 60.0
#: The results of requests, as the metric counts them.
RESULTS: Final = ("ready", "failed", "timeout")

log = structlog.get_logger("mig-partition")


class PendingPartition(msgspec.Struct):
    """A pending placement; ``deadline`` is the loop's clock, ``until`` the same as a timestamp."""

    placement: PendingPlacement
    deadline: float
    until: str
    problem: str = ""


class PartitionController:
    """The pending placements of one scheduler; ``wall`` is Unix time."""

    name = "mig-partitions"
    handles = (
        *(ev.PartitionsWriteFailed, ev.PartitionsUpdated, ev.PartitionsReplaced),
        *(ev.NodeUpdated, ev.NodesReplaced, ev.NodeDeleted),
        *(ev.PodUpdated, ev.PodDeleted, ev.PodsReplaced),
    )

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        avoidance: NodeAvoidance,
        wall: Callable[[], float],
        timeout_s: float = TIMEOUT_S,
        mig_config: MigConfigController | None = None,
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        metrics.begin_at_zero(metrics.mig_partitions, *((one,) for one in RESULTS))
        self._wall = wall
        self._timeout_s = timeout_s
        self._mig_config = mig_config
        self._pending: PendingPlacements[PendingPartition] = PendingPlacements(cluster, avoidance)
        self._backoff = GpuBackoff()

    def begin(self, placement: PendingPlacement, now: float) -> Effects:
        """A placement was assumed: request the instances that do not exist."""
        uid, node_name = placement.pod.uid, placement.node_name
        until = rfc3339(self._wall() + self._timeout_s)
        self._pending[uid] = PendingPartition(placement, now + self._timeout_s, until)
        effects: Effects = ()
        if placement.new_instances:
            text = f"requested on node {node_name}: {', '.join(map(str, placement.new_instances))}"
            effects = (RecordPodEvent(placement.pod, "PartitionRequested", text),)
        effects += self._request(node_name)
        return effects + self._check(self._on_node(node_name), now)

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Check the pending placements after an event that may concern them was folded."""
        if not self._pending:
            return NOTHING
        match event:
            case ev.PartitionsWriteFailed(node_name, message):
                for pending in self._on_node(node_name):
                    pending.problem = message
            case (
                ev.PartitionsUpdated()
                | ev.PartitionsReplaced()
                | ev.NodeUpdated()
                | ev.NodesReplaced()
                | ev.NodeDeleted()
                | ev.PodUpdated()
                | ev.PodDeleted()
                | ev.PodsReplaced()
            ):
                return self._check(list(self._pending.values()), now)
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """End backoffs and deadlines. A process that stopped leading drops its pending
        placements.
        """
        effects: Effects = tuple(self._update_gpu_backoff(name) for name in self._backoff.tick(now))
        if not leads:
            return effects + self._pending.give_up_all(now)
        if self._mig_config is not None:
            effects += self._mig_config.tick()
        for name in {one.placement.node_name for one in self._pending.values() if one.problem}:
            effects += self._request(name)
        return effects + self._check(list(self._pending.values()), now)

    def awaited(self, pod: Pod) -> str:
        """The node that mig-manager reconfigures for a pod; empty if there is none."""
        return "" if self._mig_config is None else self._mig_config.awaited(pod)

    def awaiting(self, node_name: str) -> list[str]:
        """The uids of the pods that mig-manager reconfigures a node for."""
        return [] if self._mig_config is None else self._mig_config.awaiting(node_name)

    def reject(self, uid: str, now: float) -> Effects | None:
        """Cancel a placement that waits for its instances; None if there is none."""
        return self._pending.reject(uid, now)

    # --- pending placements ------------------------------------------------------------------

    def _on_node(self, node_name: str) -> list[PendingPartition]:
        return [one for one in self._pending.values() if one.placement.node_name == node_name]

    def _check(self, pending: Iterable[PendingPartition], now: float) -> Effects:
        return tuple(effect for one in pending for effect in self._check_one(one, now))

    def _check_one(self, pending: PendingPartition, now: float) -> Effects:
        placement = pending.placement
        uid, node_name = placement.pod.uid, placement.node_name
        if uid not in self._cluster.assumed:
            return self._pending.drop(uid, (), now)
        if self._cluster.pods[uid].is_deleting or self._cluster.at(node_name) is None:
            return self._pending.give_up(uid, now)
        refused = partition_status.refusal(self._cluster, placement, pending.until)
        if refused is not None:
            return self._fail(pending, refused.message, {refused.mig_placement.gpu}, "failed", now)
        if partition_status.is_ready(self._cluster, placement, self._beside(pending)):
            del self._pending[uid]
            self._backoff.worked(
                node_name, {mig_placement.gpu for mig_placement in placement.new_instances}
            )
            self._metrics.mig_partitions.labels("ready").inc()
            return (CompleteStep(uid, CreateInstances.name),)
        if now >= pending.deadline:
            problem = pending.problem or partition_status.lateness(self._cluster, placement)
            text = f"{problem} within {self._timeout_s:g} s"
            return self._fail(pending, text, None, "timeout", now)
        return NOTHING

    def _beside(self, pending: PendingPartition) -> list[Pod]:
        """The other pods that wait on the same node."""
        on_node = self._on_node(pending.placement.node_name)
        return [other.placement.pod for other in on_node if other is not pending]

    # --- results -----------------------------------------------------------------------------

    def _fail(
        self,
        pending: PendingPartition,
        problem: str,
        gpus: set[int] | None,
        result: str,
        now: float,
    ) -> Effects:
        """The pod is retried elsewhere; the GPUs (None: all of the node's) enter backoff."""
        placement = pending.placement
        uid, node_name = placement.pod.uid, placement.node_name
        all_gpus = self._gpus_of(node_name) if gpus is None else gpus
        pause_s = self._backoff.failed(node_name, all_gpus, now)
        changes = (*self._cluster.forget(uid), self._update_gpu_backoff(node_name))
        which = "all its GPUs" if gpus is None else f"GPU {min(gpus)}"
        text = f"{node_name}: {problem}; backoff of {which} for {pause_s:g} s"
        log.warning("MIG partition request failed", pod=placement.pod.key, problem=text)
        self._metrics.mig_partitions.labels(result).inc()
        pod = self._cluster.pods[uid]
        failed = ev.BindFailed(pod, text, "creating MIG instances failed")
        event = RecordPodEvent(placement.pod, "PartitionFailed", text)
        return (event, *self._pending.drop(uid, (*changes, failed), now))

    def _gpus_of(self, node_name: str) -> Collection[int]:
        node_info = self._cluster.at(node_name)
        node = node_info.node if node_info is not None else None
        return (
            range(node.dynamic_mig.count)
            if node is not None and node.dynamic_mig is not None
            else ()
        )

    def _update_gpu_backoff(self, node_name: str) -> ev.Change:
        self._cluster.nodes.set_gpu_backoff(node_name, self._backoff.gpus_in_backoff(node_name))
        return ev.ClusterEvent(RequeueCause.AVOIDED, node_name=node_name)

    def _request(self, node_name: str) -> tuple[RequestPartitions, ...]:
        """All instances that must exist on a node: those of its running and pending pods."""
        node_info = self._cluster.at(node_name)
        if node_info is None:
            return ()
        requests = [
            PartitionRequest(
                mig_placement, uid, self._pending[uid].until if uid in self._pending else ""
            )
            for uid, (_, allocation) in node_info.pods.items()
            for mig_placement in allocation.mig_placements
        ]
        return (
            RequestPartitions(
                node_name, tuple(sorted(requests, key=lambda one: one.mig_placement))
            ),
        )
