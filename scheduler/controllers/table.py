"""The controllers of one scheduler, and the order in which the loop calls them.

The order of the handlers matters: every handler before the cluster cache sees the state without the
event, every one after it sees the state with it.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

import msgspec

from scheduler.bind.binder import Binder
from scheduler.config import Config
from scheduler.controllers.bindings import BindingController
from scheduler.controllers.claim_allocation import ClaimController
from scheduler.controllers.claim_collisions import ClaimCollisions
from scheduler.controllers.cluster_cache import ClusterCache
from scheduler.controllers.dispatch import EventRoutes, Ticker
from scheduler.controllers.expiry import (
    NominationExpiry,
    ReclaimRetry,
    ReservationExpiry,
    UnschedulableFlush,
)
from scheduler.controllers.gangs.group_owners import GroupOwners
from scheduler.controllers.gangs.group_states import GroupStates
from scheduler.controllers.gangs.reservation import RESERVE_S
from scheduler.controllers.gangs.scheduling import GangScheduling
from scheduler.controllers.leadership.gate import LeaderGate
from scheduler.controllers.mig.coming_room import ComingRoom
from scheduler.controllers.mig.mig_config import MigConfigController
from scheduler.controllers.mig.mig_partition import TIMEOUT_S, PartitionController
from scheduler.controllers.migration.controller import MigrationController, NoMigration
from scheduler.controllers.migration.planner import PlannerSettings
from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.controllers.pod_recreation import PodRecreationController
from scheduler.controllers.preemption import PreemptionController
from scheduler.controllers.volume_binding import VolumeBindingController
from scheduler.framework.decision import (
    AllocateClaims,
    BindVolumes,
    CreateInstances,
    PendingPlacement,
    PreBindStep,
)
from scheduler.framework.pipeline import Pipeline
from scheduler.model.pods.pod import Pod
from scheduler.report.containment import Containment
from scheduler.report.events.device_events import DeviceEvents
from scheduler.report.events.migration_events import MigrationEvents
from scheduler.report.events.node_events import NodeEvents
from scheduler.report.events.unreadable_events import UnreadableEvents
from scheduler.report.gauges import Gauges
from scheduler.report.metrics import Metrics
from scheduler.state.breakers.circuit import Timings
from scheduler.state.breakers.recreate_budget import WebhookLiveness
from scheduler.state.cache.cluster import Cluster
from scheduler.state.effects import Effects
from scheduler.state.scheduler_state import SchedulerState


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration; ``reserve_s`` is how long a gang reserves room.

    ``pipeline`` tells which pods will fit on nodes that get another MIG layout; with
    ``relabels_nodes`` the scheduler changes layouts itself. ``migrations`` is None for a scheduler
    that never migrates pods.
    """

    avoidance: Timings = Timings()
    partition_timeout_s: float = TIMEOUT_S
    reserve_s: float = RESERVE_S
    pipeline: Pipeline | None = None
    relabels_nodes: bool = False
    migrations: PlannerSettings | None = None


DEFAULT: Final = ControllerSettings()


def settings_of(config: Config) -> ControllerSettings:
    """The settings in a configuration."""
    restore = config.restore
    return ControllerSettings(
        avoidance=config.avoidance,
        partition_timeout_s=config.mig.partition_timeout_s,
        reserve_s=config.gang.reserve_seconds,
        pipeline=config.pipeline(),
        relabels_nodes=config.mig.relabel_nodes,
        migrations=PlannerSettings(
            mode=restore.mode_word(), timings=restore.timings(), rules=config.rules()
        ),
    )


#: Handlers that ignore a decodable pod without a node: it has no allocation.
NOT_FOR_WAITING_PODS: Final = (
    *("unreadable-objects", "devices", "mig-partitions"),
    *("volume-binding", "claim-allocation", "preemption"),
)


class _StepController(Protocol):
    """Carries out one kind of PreBind step."""

    def begin(self, placement: PendingPlacement, now: float) -> Effects:
        """A placement with such a step was assumed."""


class Controllers:
    """Every controller of one state; ``wall`` is Unix time. Without a webhook no pod has to be
    mutated, and none is recreated.
    """

    def __init__(
        self,
        state: SchedulerState,
        binder: Binder,
        gate: LeaderGate,
        metrics: Metrics,
        wall: Callable[[], float],
        settings: ControllerSettings = DEFAULT,
        webhook: WebhookLiveness | None = None,
    ) -> None:
        cluster = state.cluster
        self.contain = Containment(metrics)
        self.bindings = BindingController(binder, metrics)
        self.avoidance = NodeAvoidance(cluster, metrics, gate, settings.avoidance)
        self.partitions = PartitionController(
            cluster,
            metrics,
            self.avoidance,
            wall,
            settings.partition_timeout_s,
            _mig_config(state, self.avoidance, wall, settings),
        )
        self.volumes = VolumeBindingController(cluster, metrics, self.avoidance)
        self.claims = ClaimController(cluster, metrics, self.avoidance, wall, _random_uid)
        rejects = (self.partitions.reject, self.volumes.reject, self.claims.reject)
        self.preemption = PreemptionController(cluster, metrics, rejects)
        groups = (GroupStates(cluster, wall), GroupOwners(cluster))
        shared = (state, self.bindings, self.avoidance, self.preemption, rejects)
        self.gangs = GangScheduling(*shared, groups[0], settings.reserve_s)
        self.coming = ComingRoom(state, settings.pipeline, self.partitions.awaiting)
        self.nominations = NominationExpiry(cluster, partial(self._awaited, cluster))
        self.migrations = _migrations(state, gate, metrics, self.contain, wall, settings)
        node_events, unreadable = NodeEvents(), UnreadableEvents(metrics)
        devices, collisions = DeviceEvents(cluster.nodes), ClaimCollisions(cluster, metrics)
        of_nodes = (node_events, unreadable, self.avoidance, devices)
        cache = ClusterCache(cluster, self.contain, wall)
        preparing = (self.partitions, self.volumes, self.claims, collisions, self.preemption)
        recreation = [PodRecreationController(state, metrics, webhook)] if webhook else []
        self.events = EventRoutes(
            [
                state.reservations,
                self.bindings,
                *of_nodes,
                self.migrations,
                cache,
                *preparing,
                self.coming,
                *recreation,
            ],
            NOT_FOR_WAITING_PODS,
        )
        self.tickers: tuple[Ticker, ...] = (
            ReservationExpiry(state.reservations),
            UnschedulableFlush(state.queue),
            *of_nodes,
            cache,
            self.migrations,
            *preparing,
            self.gangs,
            *groups,
            self.coming,
            self.nominations,
            ReclaimRetry(cluster),
            *recreation,
            Gauges(metrics, state),
        )

    def _awaited(self, cluster: Cluster, pod: Pod, nominated: str = "") -> str:
        """The node where capacity is being made for a pod; empty if there is none."""
        held = cluster.nominations.awaited(pod)
        return held or self.partitions.awaited(pod) or self.coming.awaited(pod, nominated)

    def begin(self, placement: PendingPlacement, now: float) -> Effects:
        """Begin what has to be done before the Binding; each controller completes its own step."""
        controllers: Mapping[type[PreBindStep], _StepController] = {
            CreateInstances: self.partitions,
            BindVolumes: self.volumes,
            AllocateClaims: self.claims,
        }
        effects: Effects = ()
        for step in placement.steps:
            effects += controllers[type(step)].begin(placement, now)
        return effects


def _random_uid() -> str:
    return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))


def _mig_config(
    state: SchedulerState,
    avoidance: NodeAvoidance,
    wall: Callable[[], float],
    settings: ControllerSettings,
) -> MigConfigController | None:
    if settings.pipeline is None or not settings.relabels_nodes:
        return None
    return MigConfigController(state, avoidance, wall, settings.pipeline)


def _migrations(
    state: SchedulerState,
    gate: LeaderGate,
    metrics: Metrics,
    contain: Containment,
    wall: Callable[[], float],
    settings: ControllerSettings,
) -> NoMigration:
    if settings.migrations is None:
        return NoMigration()
    return MigrationController(
        state,
        settings.migrations,
        MigrationEvents(metrics),
        gate,
        contain,
        wall,
        lambda: secrets.token_hex(4),
    )
