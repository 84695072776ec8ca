"""Tells what kubelets say of the GPUs that pods have: failed ones, and books that cannot be right.

A pod on a GPU that is reported as unhealthy gets an event. A node gets one where two pods have one
GPU, and where its label says that its plugin gives the GPUs that we choose and it does not. Each is
told once, until it is over and comes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

import msgspec
import structlog

from scheduler.model import well_known
from scheduler.model.allocated_devices import shown_id, unhealthy
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.plugins.webhook_mutation import command
from scheduler.state import event as ev
from scheduler.state.node_info import NodeInfo
from scheduler.state.reported_devices import Numbering, held_twice

GPU_FAILED: Final = "GpuFailed"
HELD_TWICE: Final = "GpuHeldTwice"
LABEL_WRONG: Final = "DevicesLabelWrong"
#: Seconds for which two pods have one GPU before it is told: a pod that ended may show it still.
SETTLE_S: Final = 10.0
_SHOWN_MAX: Final = 3

log = structlog.get_logger("scheduler")


class DeviceEventRecorder(Protocol):
    """Where events go (``report/events/recorder``)."""

    def note(self, pod: Pod, reason: str, text: str) -> None:
        """Something the pod's author should know."""

    def note_node(self, node: Node, reason: str, text: str) -> None:
        """Something the node's owner should know."""


class _Numbered(msgspec.Struct):
    """A node with the label: its pods while the numbers mean the same, and whether it was told."""

    meaning: tuple[str, str, str]
    numbering: Numbering
    is_told: bool = False


class DeviceEvents:
    """What was seen, and what of it was told; only who leads tells.

    ``at`` gives the books of a node that exists.
    """

    def __init__(self, recorder: DeviceEventRecorder, at: Callable[[str], NodeInfo | None]) -> None:
        self._recorder = recorder
        self._at = at
        self._ill: dict[str, frozenset[str]] = {}
        self._untold: dict[str, Pod] = {}
        self._changed: set[str] = set()
        self._numbered: dict[str, _Numbered] = {}
        self._twice: dict[str, dict[str, float | None]] = {}
        self._to_nodes: dict[tuple[str, str], str] = {}

    def hear(self, event: ev.Event) -> None:
        """An event that is about to be folded."""
        match event:
            case ev.PodUpdated(pod):
                self._see(pod)
            case ev.PodsReplaced(pods):
                self._list(pods)
            case ev.PodDeleted(uid):
                self._ill.pop(uid, None)
                self._untold.pop(uid, None)
            case ev.NodeUpdated(node):
                self._see_node(node)
            case ev.NodesReplaced(nodes):
                for name in self._numbered.keys() - {node.name for node in nodes}:
                    del self._numbered[name]
                for node in nodes:
                    self._see_node(node)
            case ev.NodeDeleted(name):
                self._numbered.pop(name, None)
                self._twice.pop(name, None)

    def tick(self, now: float, leads: bool) -> None:
        """Look at the nodes that changed, and tell what is new where we lead."""
        for name in sorted(self._changed):
            node_info = self._at(name)
            if node_info is not None and node_info.node is not None:
                self._look(node_info.node, node_info, now)
            else:
                self._twice.pop(name, None)
        # Nodes on which two pods have one GPU are looked at until that is over.
        self._changed = set(self._twice)
        if leads:
            self._tell()

    # --- what is heard -----------------------------------------------------------------------

    def _see(self, pod: Pod) -> None:
        if not pod.allocated and pod.uid not in self._ill:
            return
        if pod.node_name:
            self._changed.add(pod.node_name)
        ill = frozenset() if pod.is_deleting or pod.is_terminal else unhealthy(pod.allocated)
        if ill == self._ill.get(pod.uid, frozenset()):
            return
        self._ill.pop(pod.uid, None)
        self._untold.pop(pod.uid, None)
        if ill:
            self._ill[pod.uid] = ill
            self._untold[pod.uid] = pod

    def _list(self, pods: Iterable[Pod]) -> None:
        listed = {pod.uid: pod for pod in pods}
        for known in (self._ill, self._untold):
            for uid in known.keys() - listed.keys():
                del known[uid]
        for pod in listed.values():
            self._see(pod)

    def _see_node(self, node: Node) -> None:
        known = self._numbered.get(node.name)
        if not node.honours_numbers:
            self._numbered.pop(node.name, None)
            return
        # After a start of the machine the numbers may mean other GPUs.
        meaning = (node.uid, node.boot, node.annotations.get(well_known.GPU_IDS, ""))
        if known is None or known.meaning != meaning:
            self._numbered[node.name] = _Numbered(meaning, Numbering())
            self._changed.add(node.name)

    # --- what it comes to --------------------------------------------------------------------

    def _look(self, node: Node, node_info: NodeInfo, now: float) -> None:
        twice = held_twice(pod for pod, _ in node_info.pods.values())
        before = self._twice.pop(node.name, {})
        if twice:
            self._twice[node.name] = {gpu: before.get(gpu, now) for gpu in twice}
        for gpu, since in self._twice.get(node.name, {}).items():
            if since is not None and now - since >= SETTLE_S:
                one, other = twice[gpu]
                self._twice[node.name][gpu] = None
                self._to_nodes[node.name, HELD_TWICE] = (
                    f"pods {one} and {other} both have {shown_id(gpu)} by their statuses; delete"
                    " one of them and restart the node's device plugin"
                )
        numbered = self._numbered.get(node.name)
        if numbered is None or numbered.is_told:
            return
        if wrong := numbered.numbering.see(node_info):
            numbered.is_told = True
            self._to_nodes[node.name, LABEL_WRONG] = label_wrong(node.name, wrong)

    def _tell(self) -> None:
        for uid, pod in self._untold.items():
            node_info = self._at(pod.node_name)
            table = (
                node_info.node.gpu_ids
                if node_info is not None and node_info.node is not None
                else {}
            )
            text = failed(pod, self._ill[uid], table)
            log.warning("a pod has an unhealthy GPU", pod=pod.key, problem=text)
            self._recorder.note(pod, GPU_FAILED, text)
        self._untold.clear()
        for (name, reason), text in self._to_nodes.items():
            node_info = self._at(name)
            if node_info is not None and node_info.node is not None:
                log.warning("the GPUs of a node are given out wrongly", node=name, problem=text)
                self._recorder.note_node(node_info.node, reason, text)
        self._to_nodes.clear()


def failed(pod: Pod, ids: Iterable[str], table: Mapping[str, int]) -> str:
    """What a pod on failed GPUs is told; ``table`` has the indexes that are known by id."""
    gpus = {one.id: one.gpu for one in pod.allocated}
    every = sorted(ids)
    shown = [
        f"{table[gpus[one]]} ({shown_id(one)})" if gpus.get(one) in table else shown_id(one)
        for one in every[:_SHOWN_MAX]
    ]
    more = f" and {len(every) - _SHOWN_MAX} more" if len(every) > _SHOWN_MAX else ""
    return (
        f"GPU {', '.join(shown)}{more} of node {pod.node_name} is reported as unhealthy; this pod"
        f" holds it; give the pod another GPU: {command(pod)}; the node's kernel log has the cause"
    )


def label_wrong(node_name: str, why: str) -> str:
    """What the owner of a node is told whose label promises what its device plugin does not do."""
    return (
        f"label {well_known.NUMBERED}=numbered is wrong: the device plugin does not give the GPUs"
        f" that gpu-scheduler chooses ({why}); take the label off: kubectl label node {node_name}"
        f" {well_known.NUMBERED}- and recreate the pods that were placed meanwhile"
    )
