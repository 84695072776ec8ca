"""Pods that wait for nodes which mig-manager lays out: as many as such a node will have room for.

An autoscaler has added such a node already, or an administrator changes its layout. Without a
nominated node each pod that waits would request one more.

A gang waits if all of its members will have room on these nodes together. A pod waits at most 15
minutes for one layout: mig-manager may be stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from scheduler.framework.pipeline import Pipeline, first_bound_rejection, first_rejection
from scheduler.framework.plugin import Refuse
from scheduler.model.node import Node
from scheduler.model.pods.gang import GangKey
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.mig.layout_wait import SETTLED_AFTER_S
from scheduler.state.node_info import NodeInfo
from scheduler.state.scheduler_state import SchedulerState

#: Maximum number of pods of an equivalence class that are woken for one node.
PODS_MAX: Final = 256
#: The key of the nodes as they will be, in the memo of the nodes.
KEY: Final = "coming"


class ComingRoom:
    """``taken`` returns the uids of the pods that wait for a node for another reason."""

    name = "coming-room"

    def __init__(
        self,
        state: SchedulerState,
        pipeline: Pipeline | None,
        taken: Callable[[str], Iterable[str]],
    ) -> None:
        self._cluster = state.cluster
        self._queue = state.queue
        self._pipeline = pipeline
        self._taken = taken
        #: By node: its coming layout, and when this was first seen.
        self._since: dict[str, tuple[Node, float]] = {}
        #: By node that may still be waited for: the pods that wait.
        self._waiting: dict[str, dict[str, Pod]] = {}
        #: Gangs without room since the last tick: each of their members would ask again.
        self._refused: set[GangKey] = set()

    def awaited(self, pod: Pod) -> str:
        """The node whose coming layout has room for a pod; empty if there is none."""
        if not self._waiting or not pod.gpu_requests:
            return ""
        self._forget_ended()
        name = self._node_of(pod.uid)
        if not name and (pods := self._together(pod)):
            if self._enter(pods):
                name = self._node_of(pod.uid)
            elif len(pods) > 1 and (key := self._cluster.gangs.key_of(pod)) is not None:
                self._refused.add(key)
        return name

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Layouts begin and end; pods that wait already are woken for those that begin."""
        coming = self._cluster.nodes.coming.nodes
        if not (coming or self._since) or self._pipeline is None:
            return NOTHING
        self._refused.clear()
        for name, (node, since) in [*self._since.items()]:
            if name not in coming or coming[name].allocatable != node.allocatable:
                del self._since[name]
                self._waiting.pop(name, None)
            elif now - since >= SETTLED_AFTER_S:
                self._waiting.pop(name, None)
        begun = [name for name in coming if name not in self._since]
        for name in begun:
            self._since[name] = coming[name], now
            self._waiting[name] = {}
        return self._wake() if begun and leads else NOTHING

    def _wake(self) -> Effects:
        """The pods that wait already, in the order of the queue as far as classes allow."""
        waiting = [list(islice(pods, PODS_MAX)) for pods in self._queue.unschedulable()]
        woken: Effects = ()
        for pods in sorted(
            filter(None, waiting), key=lambda one: (-one[0].priority, one[0].created)
        ):
            for pod in pods:
                if self._node_of(pod.uid):
                    continue
                if not self.awaited(pod):
                    break  # the others of its class fit as little
                woken += (ev.PodActivated(pod),)
        return woken

    def _together(self, pod: Pod) -> list[Pod]:
        """The pods that get room together with a pod, or none of them; empty if that is unknown."""
        gang = self._cluster.gangs.of(pod) if pod.group else None
        if gang is None or gang.is_started:
            return [pod]
        # Where its domains would be is not looked at.
        is_known = gang.is_complete and not (gang.topology and gang.topology.required)
        if not is_known or gang.key in self._refused:
            return []
        return list(gang.waiting_pods())

    def _enter(self, pods: list[Pod]) -> bool:
        """Let all of these pods wait, or none; returns whether there is room."""
        entered: list[tuple[str, str]] = []
        for pod in pods:
            name = self._room_for(pod)
            if not name:
                for there, uid in entered:
                    self._leave(there, uid)
                return False
            self._waiting[name][pod.uid] = pod
            entered.append((name, pod.uid))
            self._at(name).add(pod, self._cluster.nodes.allocation(pod, None))
        return bool(entered)

    def _room_for(self, pod: Pod) -> str:
        """The first node, by name, that will take one more pod."""
        assert self._pipeline is not None, "without it there are no coming layouts"
        filtered = self._pipeline.pre_filter(self._cluster, pod)
        if isinstance(filtered, Refuse) or filtered.named is not None:
            return ""
        filters = self._pipeline.points(pod).filters
        for name in sorted(self._waiting):
            there = self._at(name)
            if not (
                first_rejection(pod, there, filters) or first_bound_rejection(there, filtered.bound)
            ):
                return name
        return ""

    def _at(self, name: str) -> NodeInfo:
        """The node as it will be, with the pods that wait for it; kept until the node changes."""
        kept = self._cluster.nodes.memo.of(KEY)
        known = kept.get(name)
        if isinstance(known, NodeInfo):
            return known
        node_info = self._cluster.at(name)
        assert node_info is not None, "a node that does not exist has no coming layout"
        there = node_info.copy()
        there.set_node(self._cluster.nodes.coming.nodes[name])
        there.avoided = frozenset()
        pods = [self._cluster.pods[uid] for uid in self._taken(name) if uid in self._cluster.pods]
        for pod in (*pods, *self._waiting[name].values()):
            there.add(pod, self._cluster.nodes.allocation(pod, None))
        kept.keep(name, there)
        return there

    def _forget_ended(self) -> None:
        """Pods that are gone or have a node wait no more, and none for a layout that ended."""
        cluster, coming = self._cluster, self._cluster.nodes.coming.nodes
        for name, pods in [*self._waiting.items()]:
            if name not in coming:
                del self._waiting[name]
                continue
            for uid in [*pods]:
                pod = cluster.pods.get(uid)
                if pod is None or pod.node_name or uid in cluster.assumed:
                    self._leave(name, uid)

    def _leave(self, name: str, uid: str) -> None:
        del self._waiting[name][uid]
        self._cluster.nodes.memo.of(KEY).drop(name)

    def _node_of(self, uid: str) -> str:
        return next((name for name, pods in self._waiting.items() if uid in pods), "")
