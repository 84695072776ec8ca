"""GPUs one by one (design 5.5): who picks the device on this node, and is it known.

For packed pods here; whether a mapped pod's own devices are free is for ``decide/mapped``.
"""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.model import names
from scheduler.model.node import Node
from scheduler.model.pod import Pod
from scheduler.model.reason import Code, Reason
from scheduler.state.ledger import NodeBooks

KUBELET_PICKS = Reason(
    code=Code.NODE_COUNTS_DEVICES,
    text="node(s) where the kubelet picks GPUs run a pod that was mapped past it",
)
NUMBERS_UNKNOWN = Reason(
    code=Code.DEVICES_UNKNOWN, text="node(s) had GPUs held under unknown numbers"
)
NOTHING_TO_READ = Reason(
    code=Code.NO_VALUE_FOR_ENV,
    text="node(s) where the kubelet picks GPUs for a container that reads its devices",
    resolvable=False,
)


def absence(node: Node, devices: Sequence[int]) -> Reason | None:
    """Why a node cannot give these devices to anybody: it has no such GPU, or one failed.

    While a GPU is failed the node offers fewer than it has, so its count says nothing then.
    """
    if failed := node.failed_gpus.intersection(devices):
        return broken(min(failed))
    count = node.gpu_count
    if count is None or node.failed_gpus or max(devices) < count:
        return None
    text = f"node(s) without GPU {max(devices)} (the node has {count})"
    return Reason(code=Code.DEVICE_NOT_FOUND, text=text, resolvable=False)


def broken(index: int) -> Reason:
    """Why a map onto a failed GPU is refused."""
    text = f"node(s) whose GPU {index} failed"
    return Reason(code=Code.DEVICE_FAILED, text=text, resolvable=False)


def check(pod: Pod, books: NodeBooks) -> tuple[Reason, ...]:
    """Reject a node on which this pod's GPUs could be somebody else's already."""
    node = books.node
    assert node is not None
    if not pod.gpu_requests:
        return ()
    if not node.is_numbered:
        if pod.reads_devices and pod.map_text is None:
            return (NOTHING_TO_READ,)
        return (KUBELET_PICKS,) if books.tally.is_mapped_past_plugin else ()
    # On which card an instance is cut is not known yet, and the mapped one may be that card.
    if books.tally.is_mapped_past_plugin and any(map(names.is_mig, pod.gpu_requests)):
        return (KUBELET_PICKS,)
    if pod.map_text is None and pod.requests.get(names.GPU, 0) > 0 and books.tally.unknown:
        return (NUMBERS_UNKNOWN,)
    return ()
