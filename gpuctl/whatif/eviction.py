"""Empties nodes in the simulator, as ``kubectl drain`` does, and creates the pods again.

DaemonSet pods and static pods stay. A pod without a controller, and one that a PodDisruptionBudget
protects, stays as well, and is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from gpuctl.simulate.engine import Simulator
from gpuctl.whatif.budgets import Budgets
from gpuctl.whatif.controllers import Controllers
from gpuctl.whatif.live_state import LiveState, pods_on
from gpuctl.whatif.result import Move
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.model.selector import CORDON
from scheduler.state import event as ev

#: Controllers whose pods stay on a drained node: DaemonSets ignore the cordon, the kubelet itself
#: owns static pods.
STAYING: Final = ("DaemonSet", "Node")
NO_CONTROLLER: Final = "NO_CONTROLLER"
BUDGET: Final = "DISRUPTION_BUDGET"
UNREAD: Final = "NOT_READ"


class _Left(msgspec.Struct, frozen=True):
    """A pod that left its node, and the uid of the one created in its place."""

    pod: Pod
    source: str
    uid: str


class Evictions:
    """The pods that leave their nodes, in order."""

    def __init__(self, simulator: Simulator, live: LiveState, controllers: Controllers) -> None:
        self._simulator = simulator
        self._live = live
        self._controllers = controllers
        self._budgets = Budgets(simulator, live.state, live.health)
        self._found: list[_Left | Move] = []

    def empty(self, name: str, leaves: Callable[[Pod], bool] = lambda _: True) -> list[Move]:
        """Evict the pods of a cordoned node that have to leave; returns those that stay."""
        stay: list[Move] = []
        for pod in pods_on(self._live.state, [name]):
            owner = pod.owner
            if (owner is not None and owner.kind in STAYING) or not leaves(pod):
                continue
            if pod.uid not in self._simulator.cluster.pods:
                continue  # preempted meanwhile
            found = self._evicted(pod, name)
            if found is not None:
                self._found.append(found)
            if isinstance(found, Move):
                stay.append(found)
        return stay

    def moves(self) -> tuple[Move, ...]:
        """Every pod that had to leave, as it is now."""
        return tuple(map(self._as_move, self._found))

    @property
    def uids(self) -> set[str]:
        """The pods that are there in place of others."""
        lefts = [one.uid for one in self._found if isinstance(one, _Left)]
        return {*lefts, *map(self._controllers.newest, lefts)}

    def _evicted(self, pod: Pod, source: str) -> _Left | Move | None:
        if pod.is_deleting:
            self._simulator.end(pod)
            return None
        if pod.owner is None:
            text = "no controller creates it again (kubectl drain needs --force)"
            return _stays(pod, source, NO_CONTROLLER, text)
        if problem := self._budgets.refusal(pod):
            return _stays(pod, source, BUDGET, problem)
        if not self._controllers.knows(pod):
            return _stays(pod, source, UNREAD, "not decided: you may not read it or its owner")
        self._simulator.end(pod)
        return _Left(pod, source, self._controllers.recreate(pod))

    def _as_move(self, one: _Left | Move) -> Move:
        if isinstance(one, Move):
            return one
        verdict = self._simulator.verdicts[self._controllers.newest(one.uid)]
        return Move(
            namespace=one.pod.namespace,
            pod=one.pod.name,
            source=one.source,
            node=verdict.node or "",
            reason="" if verdict.node else verdict.reason,
            codes=verdict.codes,
        )


def cordoned(node: Node) -> Node:
    """The node after ``kubectl cordon``."""
    taints = node.taints if CORDON in node.taints else (*node.taints, CORDON)
    return msgspec.structs.replace(node, unschedulable=True, taints=taints)


def update_node(simulator: Simulator, node: Node) -> None:
    """Fold the node's new state."""
    simulator.add_event(ev.NodeUpdated(node))


def _stays(pod: Pod, source: str, code: str, reason: str) -> Move:
    return Move(
        namespace=pod.namespace,
        pod=pod.name,
        source=source,
        stays=True,
        reason=reason,
        codes=(code,),
    )
