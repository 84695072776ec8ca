"""GPUs one by one (design 5.5): who picks the device on this node, and is it known.

For packed pods here; a mapped pod's own devices are checked by ``decide/mapped``.
"""

from __future__ import annotations

from scheduler.model import names
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
