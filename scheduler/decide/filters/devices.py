"""GPUs one by one (design 5.5): who picks the device on this node, and is it known.

For packed pods here; whether a mapped pod's own devices are free is for ``decide/gpu_map``.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.state.node_info import NodeInfo

KUBELET_PICKS = Reason(
    code=ReasonCode.NODE_COUNTS_DEVICES,
    text="node(s) where the kubelet picks GPUs run a pod that was mapped past it",
)
NUMBERS_UNKNOWN = Reason(
    code=ReasonCode.DEVICES_UNKNOWN, text="node(s) had GPUs held under unknown numbers"
)
NOTHING_TO_READ = Reason(
    code=ReasonCode.NO_VALUE_FOR_ENV,
    text="node(s) where the kubelet picks GPUs for a container that reads its devices",
    resolvable=False,
)


CLAIMED = Reason(
    code=ReasonCode.DEVICES_UNKNOWN,
    text="node(s) run pods with resource claims and which GPUs a DRA driver gave them is not known",
)


def absence(node: Node, devices: Sequence[int]) -> Reason | None:
    """Why a node cannot give these devices to any pod: it has no such GPU, or one failed.

    What counts are the physical GPUs: what is offered is less while some are unhealthy, and more
    where they are shared.
    """
    if failed := node.failed_gpus.intersection(devices):
        return broken(min(failed))
    count = node.card_count
    if count is None or max(devices) < count:
        return None
    return _not_there(f"node(s) without GPU {max(devices)} (the node has {count})")


def cut(node: Node, devices: Sequence[int]) -> Reason | None:
    """Why these devices cannot be shown to a container as whole GPUs: one is cut."""
    there = node.cut_gpus
    found = devices if there is None else there.intersection(devices)
    return (
        _not_there(f"node(s) whose GPU {min(found)} is cut into MIG instances") if found else None
    )


def _not_there(text: str) -> Reason:
    return Reason(code=ReasonCode.DEVICE_NOT_FOUND, text=text, resolvable=False)


def broken(index: int) -> Reason:
    """Why a map onto a failed GPU is refused."""
    text = f"node(s) whose GPU {index} failed"
    return Reason(code=ReasonCode.DEVICE_FAILED, text=text, resolvable=False)


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """Reject a node on which this pod's GPUs could be somebody else's already."""
    node = node_info.node
    assert node is not None
    if not pod.gpu_requests:
        return ()
    if not node.is_numbered:
        if pod.reads_devices and pod.map_text is None:
            return (NOTHING_TO_READ,)
        return (KUBELET_PICKS,) if node_info.usage.is_mapped_past_plugin else ()
    # On which card an instance is cut is not known yet, and the mapped one may be that card.
    if node_info.usage.is_mapped_past_plugin and any(map(well_known.is_mig, pod.gpu_requests)):
        return (KUBELET_PICKS,)
    if pod.map_text is None and pod.requests.get(well_known.GPU, 0) > 0 and node_info.usage.unknown:
        return (NUMBERS_UNKNOWN,)
    return ()
