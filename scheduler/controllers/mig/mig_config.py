"""Changes the MIG configuration of idle nodes for pending pods, if the configuration allows it.

::

    a pod is pending, no instance is free --a node is idle--> its label is set, pods avoid it
        --mig-manager: pending ... success--> it advertises instances, the pod is placed as usual

One node at a time, and the same node again after ten minutes. The patch sets the state label to
``pending`` too, so every reader avoids the node before mig-manager begins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice
from typing import Final

import structlog

from scheduler.controllers.node_avoidance import NodeAvoidance
from scheduler.decide.mig.config_change import MigConfigChange, candidate, idle_nodes, pods_on
from scheduler.framework.pipeline import Pipeline
from scheduler.model import well_known
from scheduler.model.actions import RecordPodEvent, SetMigConfig
from scheduler.model.mig.node_geometry import FAILED
from scheduler.model.pods.pod import Pod
from scheduler.model.timestamps import epoch
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.scheduler_state import SchedulerState

#: Seconds for which a pod is pending before a node is reconfigured for it.
WAITS_S: Final = 30.0
#: Seconds until the same node may be reconfigured again.
COOLDOWN_S: Final = 600.0
#: Maximum number of pods of an equivalence class that wait for one node.
PODS_MAX: Final = 256
#: Seconds that the watch may take to show the label; afterwards the node is used again.
SEEN_WITHIN_S: Final = 10.0

log = structlog.get_logger("mig-partition")


class MigConfigController:
    """Reconfigures at most one node at a time; ``wall`` is Unix time."""

    def __init__(
        self,
        state: SchedulerState,
        avoidance: NodeAvoidance,
        wall: Callable[[], float],
        pipeline: Pipeline,
    ) -> None:
        self._nodes = state.cluster.nodes
        self._cluster = state.cluster
        self._queue = state.queue
        self._avoidance = avoidance
        self._wall = wall
        self._pipeline = pipeline
        self._changed_at: dict[str, float] = {}
        self._current: MigConfigChange | None = None
        #: Uid of a pod -> the node that is being reconfigured for it.
        self._awaited: dict[str, MigConfigChange] = {}

    def awaited(self, pod: Pod) -> str:
        """The node that is being reconfigured for a pod; empty if there is none, or it failed."""
        change = self._awaited.get(pod.uid)
        node_info = self._nodes.at(change.node_name) if change is not None else None
        node = node_info.node if node_info is not None else None
        if change is None or node is None or node.mig_hold == FAILED:
            return ""
        is_done = not node.mig_hold and any(map(node.allocatable.get, pod.gpu_requests))
        return "" if is_done else change.node_name

    def awaiting(self, node_name: str) -> list[str]:
        """The uids of the pods that a node is being reconfigured for."""
        return [uid for uid, change in self._awaited.items() if change.node_name == node_name]

    def tick(self) -> Effects:
        """A second has passed; called by the leader only."""
        now = self._wall()
        for name in [name for name, at in self._changed_at.items() if now - at >= COOLDOWN_S]:
            del self._changed_at[name]
            self._stop_waiting(name)
        if self._current is not None:
            return self._follow(self._current, now)
        waiting = self._waiting(now)
        idle = idle_nodes(self._cluster, frozenset(self._changed_at)) if waiting else []
        for pods in waiting:
            change = candidate(idle, pods[0], self._pipeline)
            if change is not None:
                return self._begin(change, pods, now)
        return NOTHING

    def _waiting(self, now: float) -> list[list[Pod]]:
        """By equivalence class the pods that lack only MIG instances, and have for a while."""
        groups = (list(islice(group, PODS_MAX)) for group in self._queue.lacking_one())
        return [
            pods for pods in groups if pods and now - (epoch(pods[0].created) or now) >= WAITS_S
        ]

    def _begin(self, change: MigConfigChange, pods: list[Pod], now: float) -> Effects:
        pod, node_name = pods[0], change.node_name
        self._changed_at[node_name] = now
        self._current = change
        node_info = self._nodes.at(node_name)
        node = node_info.node if node_info is not None else None
        room = pods_on(node, pod) if node is not None else 0
        self._awaited.update((waiting.uid, change) for waiting in pods[:room])
        # No pod may get a GPU of the node until the watch shows the label.
        self._avoidance.close(node_name)
        text = f"{node_name} is idle; {well_known.MIG_WANTED} is set to {change.config}"
        log.info("MIG configuration of idle node changed", pod=pod.key, node=node_name)
        event = RecordPodEvent(pod, "MigConfigChanged", text)
        return (event, SetMigConfig(node_name, change.config))

    def _follow(self, change: MigConfigChange, now: float) -> Effects:
        """Once the watch shows the label, the state label keeps pods off the node."""
        node_info = self._nodes.at(change.node_name)
        node = node_info.node if node_info is not None else None
        is_seen = node is None or node.labels.get(well_known.MIG_WANTED) == change.config
        # No tick comes while another replica leads, and the node may be forgotten meanwhile.
        changed_at = self._changed_at.get(change.node_name, -math.inf)
        if not is_seen and now - changed_at < SEEN_WITHIN_S:
            return NOTHING
        self._current = None
        if not is_seen:
            self._stop_waiting(change.node_name)
        return tuple(self._avoidance.reopen(change.node_name))

    def _stop_waiting(self, node_name: str) -> None:
        for uid in [uid for uid, one in self._awaited.items() if one.node_name == node_name]:
            del self._awaited[uid]
