"""Placements that wait for their claims: written, confirmed, then bound or given up.

::

    PendingPlacement --written--every claim is bound--> the step is complete
                        |--a write fails, the provisioner gives up, a volume changes--> retried
                        '--600 s pass--------------------------------------------------> retried

Meanwhile the pod is assumed on its node, and its volumes are assumed to be given. Only the leader
writes. A new leader decides again: it finds volumes that were given and nodes that were selected,
and waits for the same claims. The rules are those of ``checkBindings`` in kube-scheduler's
volumebinding; an event takes the place of its poll.
"""

from __future__ import annotations

from typing import Final, get_args

import msgspec
import structlog

from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.controllers.pending_placements import PendingPlacements
from scheduler.decide.volume_status import status
from scheduler.framework.decision import BindVolumes, PendingPlacement
from scheduler.model.actions import (
    CompleteStep,
    GiveVolume,
    SelectNode,
    WriteVolumes,
)
from scheduler.model.node import Node
from scheduler.model.volumes.volume_plan import Provision, StaticBinding, VolumePlan
from scheduler.report.metrics import Metrics
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import NOTHING, Effects

TIMEOUT_S: Final = 600.0

log = structlog.get_logger("volumes")


class PendingVolumes(msgspec.Struct):
    """A placement that waits; ``written`` has the version of each object that was written for it.

    ``deadline`` is on the loop's clock.
    """

    placement: PendingPlacement
    plan: VolumePlan
    deadline: float
    attempt: int
    is_written: bool
    written: dict[str, str]


class VolumeBindingController:
    """The placements of one scheduler that wait for volumes."""

    name = "volume-binding"
    handles = (
        *(ev.VolumesWritten, *get_args(ev.StorageEvent)),
        *(ev.NodeUpdated, ev.NodesReplaced, ev.NodeDeleted),
        *(ev.PodUpdated, ev.PodDeleted, ev.PodsReplaced),
    )

    def __init__(
        self,
        cluster: Cluster,
        metrics: Metrics,
        avoidance: NodeAvoidance,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._timeout_s = timeout_s
        self._pending: PendingPlacements[PendingVolumes] = PendingPlacements(cluster, avoidance)
        self._attempts = 0

    def begin(self, placement: PendingPlacement, now: float) -> Effects:
        """A placement was assumed: write what is not written yet."""
        uid = placement.pod.uid
        plan = next(step.plan for step in placement.steps if isinstance(step, BindVolumes))
        self._attempts += 1
        try:
            changes = self._changes(plan)
        except LookupError as gone:
            changes, problem = (), str(gone.args[0])
        else:
            problem = ""
        pending = self._pending[uid] = PendingVolumes(
            *(placement, plan, now + self._timeout_s, self._attempts, not changes, {})
        )
        if problem:
            return self._fail(pending, problem, "gone", now)
        if changes:
            return (WriteVolumes(uid, self._attempts, changes),)
        return self._check(pending, now)

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Check the pending placements after an event that may concern them was folded."""
        if not self._pending:
            return NOTHING
        if isinstance(event, ev.VolumesWritten):
            return self._written(event, now)
        return self._check_all(now)

    def tick(self, now: float, *, leads: bool) -> Effects:
        """End what is too late. A process that leads no more gives up what is pending."""
        return self._check_all(now) if leads else self._pending.give_up_all(now)

    def reject(self, uid: str, now: float) -> Effects | None:
        """Cancel a placement that waits for its claims; None if there is none."""
        return self._pending.reject(uid, now)

    # --- what is written ---------------------------------------------------------------------

    def _changes(self, plan: VolumePlan) -> tuple[GiveVolume | SelectNode, ...]:
        """The objects that differ from the plan; after a restart there may be none."""
        given = (self._given(one) for one in plan.bindings)
        selected = (self._selected(one, plan.node_name) for one in plan.provisions)
        return tuple(one for one in (*given, *selected) if one is not None)

    def _given(self, binding: StaticBinding) -> GiveVolume | None:
        store = self._cluster.volumes
        volume, claim = store.volume_seen(binding.volume), store.claim_seen(binding.claim)
        if volume is None or claim is None:
            raise LookupError(f"volume {binding.volume} or claim {binding.claim} is gone")
        is_known = volume.is_for(claim)
        if is_known and volume.claim is not None and volume.claim.uid:
            return None
        return GiveVolume(
            *(volume.name, volume.version, claim.namespace, claim.name, claim.uid, claim.version),
            is_ours=not is_known and not volume.is_bound_by_controller,
        )

    def _selected(self, provision: Provision, node_name: str) -> SelectNode | None:
        claim = self._cluster.volumes.claim_seen(provision.claim)
        if claim is None:
            raise LookupError(f"claim {provision.claim} is gone")
        if claim.selected_node == node_name:
            return None
        return SelectNode(claim.namespace, claim.name, claim.uid, claim.version, node_name)

    def _written(self, event: ev.VolumesWritten, now: float) -> Effects:
        pending = self._pending.get(event.uid)
        for key, _ in event.written:
            self._cluster.volumes.keep(event.uid, key)
        if pending is None or pending.attempt != event.attempt:
            return NOTHING
        pending.is_written = True
        pending.written = dict(event.written)
        if event.is_unsent:
            return self._pending.give_up(event.uid, now)
        if event.problem:
            return self._fail(pending, event.problem, "refused", now)
        return self._check(pending, now)

    # --- what is bound -----------------------------------------------------------------------

    def _check_all(self, now: float) -> Effects:
        pending = list(self._pending.values())
        return tuple(effect for one in pending for effect in self._check(one, now))

    def _check(self, pending: PendingVolumes, now: float) -> Effects:
        placement = pending.placement
        uid = placement.pod.uid
        if uid not in self._cluster.assumed:
            return self._pending.drop(uid, (), now)
        if self._cluster.pods[uid].is_deleting:
            return self._pending.give_up(uid, now)
        node_info = self._cluster.at(placement.node_name)
        if node_info is None:
            return self._fail(pending, f"node {placement.node_name} is gone", "gone", now)
        assert node_info.node is not None
        return self._check_claims(pending, node_info.node, now) if pending.is_written else NOTHING

    def _check_claims(self, pending: PendingVolumes, node: Node, now: float) -> Effects:
        uid = pending.placement.pod.uid
        found = status(self._cluster.volumes, pending.plan, node, pending.written)
        if found.problem:
            return self._fail(pending, found.problem, "undone", now)
        if not found.waits_for:
            del self._pending[uid]
            self._metrics.volume_bindings.labels("bound").inc()
            return (CompleteStep(uid, BindVolumes.name),)
        if now >= pending.deadline:
            text = f"not bound within {self._timeout_s:g} s: {' and '.join(found.waits_for)}"
            return self._fail(pending, text, "timeout", now)
        return NOTHING

    # --- ends --------------------------------------------------------------------------------

    def _fail(self, pending: PendingVolumes, problem: str, result: str, now: float) -> Effects:
        """The placement is taken back, and the pod is decided again after its backoff."""
        uid, node_name = pending.placement.pod.uid, pending.placement.node_name
        changes = self._cluster.forget(uid)
        pod = self._cluster.pods[uid]
        log.warning("volumes not bound", pod=pod.key, node=node_name, problem=problem)
        self._metrics.volume_bindings.labels(result).inc()
        failed = ev.BindFailed(pod, f"{problem} (node {node_name})", "binding volumes failed")
        return self._pending.drop(uid, (*changes, failed), now)
