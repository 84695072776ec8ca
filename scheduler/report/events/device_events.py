"""Reports problems with the GPUs that kubelets allocated to pods.

A pod with an unhealthy GPU gets an event. A node gets an event if two pods have the same GPU, or if
its label promises that its device plugin allocates the GPUs that the scheduler chooses and the
plugin does not. Each problem is reported once until it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
import structlog

from scheduler.model import well_known
from scheduler.model.actions import RecordNodeEvent, RecordPodEvent
from scheduler.model.gpu.allocated_devices import shown_id, unhealthy
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.plugins.webhook_mutation import command
from scheduler.state import event as ev
from scheduler.state.cache.nodes import Nodes
from scheduler.state.effects import NOTHING, Effects
from scheduler.state.node_info import NodeInfo
from scheduler.state.reported_devices import Numbering, held_twice

GPU_FAILED: Final = "GpuFailed"
HELD_TWICE: Final = "GpuAssignedTwice"
LABEL_WRONG: Final = "DevicesLabelInvalid"
#: Seconds for which two pods have one GPU before it is reported: an ended pod may still show it.
SETTLE_S: Final = 10.0
_SHOWN_MAX: Final = 3

log = structlog.get_logger("scheduler")


class _Numbered(msgspec.Struct):
    """A node with the label: its pods while the indexes mean the same GPUs."""

    meaning: tuple[str, str, str]
    numbering: Numbering
    is_reported: bool = False


class DeviceEvents:
    """The problems that every replica sees; the leader reports them."""

    name = "devices"
    handles = (
        *(ev.PodUpdated, ev.PodsReplaced, ev.PodDeleted),
        *(ev.NodeUpdated, ev.NodesReplaced, ev.NodeDeleted),
    )

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._unhealthy: dict[str, frozenset[str]] = {}
        self._unreported: dict[str, Pod] = {}
        self._changed: set[str] = set()
        self._numbered: dict[str, _Numbered] = {}
        self._twice: dict[str, dict[str, float | None]] = {}
        self._to_nodes: dict[tuple[str, str], str] = {}

    def handle(self, event: ev.Event, now: float) -> Effects:
        """Note the nodes and pods in an event; ``tick`` checks them."""
        match event:
            case ev.PodUpdated(pod):
                self._upsert_pod(pod)
            case ev.PodsReplaced(pods):
                self._replace_pods(pods)
            case ev.PodDeleted(uid):
                self._unhealthy.pop(uid, None)
                self._unreported.pop(uid, None)
            case ev.NodeUpdated(node):
                self._upsert_node(node)
            case ev.NodesReplaced(nodes):
                for name in self._numbered.keys() - {node.name for node in nodes}:
                    del self._numbered[name]
                for node in nodes:
                    self._upsert_node(node)
            case ev.NodeDeleted(name):
                self._numbered.pop(name, None)
                self._twice.pop(name, None)
        return NOTHING

    def tick(self, now: float, *, leads: bool) -> Effects:
        """Check the nodes that changed; the leader reports new problems."""
        for name in sorted(self._changed):
            node_info = self._nodes.at(name)
            if node_info is not None and node_info.node is not None:
                self._check_node(node_info.node, node_info, now)
            else:
                self._twice.pop(name, None)
        # A node on which two pods have one GPU is checked until that ends.
        self._changed = set(self._twice)
        return (*self._pod_events(), *self._node_events()) if leads else NOTHING

    # --- events ------------------------------------------------------------------------------

    def _upsert_pod(self, pod: Pod) -> None:
        if not pod.allocated and pod.uid not in self._unhealthy:
            return
        if pod.node_name:
            self._changed.add(pod.node_name)
        ill = frozenset() if pod.is_deleting or pod.is_terminal else unhealthy(pod.allocated)
        if ill == self._unhealthy.get(pod.uid, frozenset()):
            return
        self._unhealthy.pop(pod.uid, None)
        self._unreported.pop(pod.uid, None)
        if ill:
            self._unhealthy[pod.uid] = ill
            self._unreported[pod.uid] = pod

    def _replace_pods(self, pods: Iterable[Pod]) -> None:
        listed = {pod.uid: pod for pod in pods}
        for known in (self._unhealthy, self._unreported):
            for uid in known.keys() - listed.keys():
                del known[uid]
        for pod in listed.values():
            self._upsert_pod(pod)

    def _upsert_node(self, node: Node) -> None:
        known = self._numbered.get(node.name)
        if not node.honours_indexes:
            self._numbered.pop(node.name, None)
            return
        # After a restart of the machine the indexes may mean other GPUs.
        meaning = (node.uid, node.boot, node.annotations.get(well_known.GPU_IDS, ""))
        if known is None or known.meaning != meaning:
            self._numbered[node.name] = _Numbered(meaning, Numbering())
            self._changed.add(node.name)

    # --- reports -----------------------------------------------------------------------------

    def _check_node(self, node: Node, node_info: NodeInfo, now: float) -> None:
        twice = held_twice(pod for pod, _ in node_info.pods.values())
        before = self._twice.pop(node.name, {})
        if twice:
            self._twice[node.name] = {gpu: before.get(gpu, now) for gpu in twice}
        for gpu, since in self._twice.get(node.name, {}).items():
            if since is not None and now - since >= SETTLE_S:
                one, other = twice[gpu]
                self._twice[node.name][gpu] = None
                self._to_nodes[node.name, HELD_TWICE] = (
                    f"pods {one} and {other} both have {shown_id(gpu)} according to their statuses;"
                    " delete one of them and restart the node's device plugin"
                )
        numbered = self._numbered.get(node.name)
        if numbered is None or numbered.is_reported:
            return
        if wrong := numbered.numbering.see(node_info):
            numbered.is_reported = True
            self._to_nodes[node.name, LABEL_WRONG] = label_wrong(node.name, wrong)

    def _pod_events(self) -> Iterator[RecordPodEvent]:
        for uid, pod in self._unreported.items():
            node_info = self._nodes.at(pod.node_name)
            table = (
                node_info.node.gpu_ids
                if node_info is not None and node_info.node is not None
                else {}
            )
            text = failed(pod, self._unhealthy[uid], table)
            log.warning("pod has an unhealthy GPU", pod=pod.key, problem=text)
            yield RecordPodEvent(pod, GPU_FAILED, text)
        self._unreported.clear()

    def _node_events(self) -> Iterator[RecordNodeEvent]:
        for (name, reason), text in self._to_nodes.items():
            node_info = self._nodes.at(name)
            if node_info is not None and node_info.node is not None:
                log.warning("GPU assignment of node is inconsistent", node=name, problem=text)
                yield RecordNodeEvent(node_info.node, reason, text)
        self._to_nodes.clear()


def failed(pod: Pod, ids: Iterable[str], table: Mapping[str, int]) -> str:
    """The event of a pod on failed GPUs; ``table`` has the known indexes by id."""
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
    """The event of a node whose label is wrong for its device plugin."""
    return (
        f"label {well_known.NUMBERED}=numbered is wrong: the device plugin does not give the GPUs"
        f" that gpu-scheduler chooses ({why}); remove the label: kubectl label node {node_name}"
        f" {well_known.NUMBERED}- and recreate the pods that were placed while it was set"
    )
