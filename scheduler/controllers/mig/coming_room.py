"""Pods that wait for nodes which mig-manager lays out: as many as such a node will have room for.

An autoscaler has added such a node already, or an administrator changes its layout. Without a
nominated node each pod that waits would request one more.

A gang waits if all of its members will have room on these nodes together. A pod waits at most 15
minutes for one layout: mig-manager may be stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from scheduler.framework.pipeline import Pipeline, first_bound_rejection, first_rejection
from scheduler.framework.plugin import Refuse
from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.pods.gang import GangKey
from scheduler.model.pods.pod import Pod
from scheduler.state import event as ev
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.mig.layout_wait import SETTLED_AFTER_S
from scheduler.state.node_info import NodeInfo
from scheduler.state.scheduler_state import SchedulerState

#: Maximum number of pods of an equivalence class that are woken for each node that begins.
PODS_MAX: Final = 256
#: The key of the nodes as they will be, in the memo of the nodes.
KEY: Final = "coming"


class ComingRoom:
    """``taken`` returns the uids of the pods that wait for a node for another reason."""

    name = "coming-room"
    handles = (ev.PodDeleted,)

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
        #: By pod that waits: the node.
        self._nodes: dict[str, str] = {}
        #: Gangs without room since the last tick: each of their members would ask again.
        self._refused: set[GangKey] = set()

    def awaited(self, pod: Pod, nominated: str = "") -> str:
        """The node whose coming layout has room for a pod; empty if there is none.

        A pod waits for no layout while pods end for it on its ``nominated`` node.
        """
        if nominated:
            self._leave(pod.uid)
            return ""
        if not self._waiting or not pod.gpu_requests:
            return ""
        name = self._node_of(pod.uid)
        if not name and (pods := self._together(pod)):
            if self._enter(pods):
                name = self._node_of(pod.uid)
            elif len(pods) > 1 and (key := self._cluster.gangs.key_of(pod)) is not None:
                self._refused.add(key)
        return name

    def handle(self, event: ev.Event, now: float) -> Effects:
        """A deleted pod leaves its room to another."""
        if isinstance(event, ev.PodDeleted):
            self._leave(event.uid)
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Layouts begin and end; pods that wait already are woken for those that begin."""
        coming = self._cluster.nodes.coming.nodes
        if not (coming or self._since) or self._pipeline is None:
            return NOTHING
        self._refused.clear()
        self._forget_ended()
        before = dict(self._nodes)
        begun: list[str] = []
        for name, (node, since) in [*self._since.items()]:
            if name not in coming or _gpus(coming[name]) != _gpus(node):
                del self._since[name]
                self._drop(name)
            elif now - since >= SETTLED_AFTER_S:
                self._drop(name)
            elif _lets_in(coming[name]) != _lets_in(node):
                self._drop(name)
                self._since[name] = coming[name], since
                begun.append(name)
        new = [name for name in coming if name not in self._since]
        self._since.update((name, (coming[name], now)) for name in new)
        begun += new
        self._waiting.update((name, {}) for name in begun)
        return self._wake(PODS_MAX * len(begun), before) if begun and leads else NOTHING

    def _wake(self, most: int, before: Mapping[str, str]) -> Effects:
        """The pods without a node, in the order of the queue as far as classes allow.

        Of a class so many at ``most``. Those that wait where they did ``before`` sleep on.
        """
        waiting = [
            list(islice((pod for pod in pods if not self._node_of(pod.uid)), most))
            for pods in self._queue.unschedulable()
        ]
        woken: Effects = ()
        for pods in sorted(
            filter(None, waiting), key=lambda one: (-one[0].priority, one[0].created)
        ):
            for pod in pods:
                if self._node_of(pod.uid):
                    continue
                name = self.awaited(pod)
                if not name:
                    break  # the others of its class fit as little
                if name != before.get(pod.uid):
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
        """Let all of these pods wait, or none more; returns whether there is room."""
        entered: list[str] = []
        for pod in pods:
            if self._node_of(pod.uid):
                continue
            name = self._room_for(pod)
            if not name:
                for uid in entered:
                    self._leave(uid)
                return False
            self._leave(pod.uid)
            self._waiting[name][pod.uid] = pod
            self._nodes[pod.uid] = name
            entered.append(pod.uid)
            self._at(name).add(pod, self._cluster.nodes.allocation(pod, None))
        return bool(entered)

    def _room_for(self, pod: Pod) -> str:
        """The first node, by name, that will take one more pod."""
        assert self._pipeline is not None, "without it there are no coming layouts"
        names = [name for name in sorted(self._waiting) if self._will_offer(name, pod)]
        if not names:
            return ""
        filtered = self._pipeline.pre_filter(self._cluster, pod)
        if isinstance(filtered, Refuse) or filtered.named is not None:
            return ""
        filters = self._pipeline.points(pod).filters
        for name in names:
            there = self._at(name)
            if not (
                first_rejection(pod, there, filters) or first_bound_rejection(there, filtered.bound)
            ):
                return name
        return ""

    def _will_offer(self, name: str, pod: Pod) -> bool:
        """Whether a node, if its layout has not ended, will have what a pod requests of GPUs."""
        node = self._cluster.nodes.coming.nodes.get(name)
        return node is not None and all(
            node.allocatable.get(resource, 0) >= count
            for resource, count in pod.gpu_requests.items()
        )

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
        for uid in {*self._taken(name), *self._waiting[name]}:
            if (pod := self._unplaced(uid)) is not None:
                there.add(pod, self._cluster.nodes.allocation(pod, None))
        kept.keep(name, there)
        return there

    def _unplaced(self, uid: str) -> Pod | None:
        """A pod that exists and has no node."""
        pod = self._cluster.pods.get(uid)
        has_node = pod is None or pod.node_name or uid in self._cluster.assumed
        return None if has_node else pod

    def _forget_ended(self) -> None:
        """Pods that are gone or have a node wait no more."""
        for uid in [uid for uid in self._nodes if self._unplaced(uid) is None]:
            self._leave(uid)

    def _leave(self, uid: str) -> None:
        """A pod waits no more."""
        name = self._nodes.pop(uid, "")
        if name:
            del self._waiting[name][uid]
            self._cluster.nodes.memo.of(KEY).drop(name)

    def _drop(self, name: str) -> None:
        """A node is not waited for any more."""
        for uid in self._waiting.pop(name, {}):
            del self._nodes[uid]
        self._cluster.nodes.memo.of(KEY).drop(name)

    def _node_of(self, uid: str) -> str:
        """The node that a pod waits for; empty once its layout ended."""
        name = self._nodes.get(uid, "")
        return name if name in self._cluster.nodes.coming.nodes else ""


def _gpus(node: Node) -> dict[str, int]:
    """What a layout has: with another one the wait begins again."""
    return {r: n for r, n in node.allocatable.items() if well_known.is_gpu_device(r)}


def _lets_in(node: Node) -> tuple[object, ...]:
    """What decides, beside the layout, which pods may run there."""
    return node.unschedulable, node.taints, node.labels
