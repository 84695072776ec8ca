"""Taints with NoSchedule or NoExecute keep pods away (plugins/tainttoleration).

Node conditions are not looked at: the node controllers turn them into taints.
"""

from __future__ import annotations

from functools import lru_cache

from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.model.selector import Taint, untolerated
from scheduler.state.node_info import NodeInfo


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """Reject the node for its first taint that the pod does not tolerate."""
    node = node_info.node
    assert node is not None
    if not node.taints:
        return ()
    taint = untolerated(node.taints, pod.tolerations)
    return () if taint is None else _no(taint)


@lru_cache(maxsize=1024)
def _no(taint: Taint) -> tuple[Reason, ...]:
    # The form of Kubernetes up to 1.34: later ones leave the taint out, which helps nobody.
    text = f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    return (Reason(code=ReasonCode.TAINT, text=text, resolvable=False),)
