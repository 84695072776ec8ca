"""Node selector and required node affinity (plugins/nodeaffinity).

A node that misses nothing but GPU memory is told apart: the condition on ``nvidia.com/gpu.memory``
is the webhook's for a pod with ``gpu-scheduler.io/gpu-memory``, and its author never wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from scheduler.model import well_known
from scheduler.model.integer_text import whole
from scheduler.model.limits import GPU_MEMORY_MIB_MAX
from scheduler.model.mig.node_geometry import memory_mib
from scheduler.model.pod import Pod
from scheduler.model.reason import Reason, ReasonCode
from scheduler.model.selector import Requirement, Term, matches_any
from scheduler.state.node_info import NodeInfo

REASON = Reason(
    code=ReasonCode.AFFINITY,
    text="node(s) didn't match Pod's node affinity/selector",
    resolvable=False,
)
NO = (REASON,)


def check(pod: Pod, node_info: NodeInfo) -> tuple[Reason, ...]:
    """Reject a node that misses a selector's label or matches none of the terms."""
    node = node_info.node
    assert node is not None
    for key, value in pod.node_selector.items():
        if node.labels.get(key) != value:
            return NO
    if pod.required_terms is not None and not matches_any(
        pod.required_terms, node.labels, node.name
    ):
        return _memory(pod.required_terms, node_info) or NO
    return ()


def _memory(terms: Iterable[Term], node_info: NodeInfo) -> tuple[Reason, ...]:
    """The reason where the node matches a term in all but its least GPU memory; else empty."""
    node = node_info.node
    assert node is not None
    for term in terms:
        least = max(map(_least, term.match_expressions), default=0)
        if not least:
            continue
        others = tuple(one for one in term.match_expressions if not _least(one))
        rest = Term(others, term.match_fields)
        if rest == Term() or matches_any((rest,), node.labels, node.name):
            return _too_little(memory_mib(node.labels), least)
    return ()


def _least(requirement: Requirement) -> int:
    """The MiB that a requirement asks of ``nvidia.com/gpu.memory``; 0 for any other one."""
    if (requirement.key, requirement.operator) != (well_known.GPU_MEMORY, "Gt"):
        return 0
    bound = whole(requirement.values[0], GPU_MEMORY_MIB_MAX) if requirement.values else None
    return 0 if bound is None else bound + 1


@lru_cache(maxsize=1024)
def _too_little(have: int, need: int) -> tuple[Reason, ...]:
    if have:
        text = f"node(s) whose {well_known.GPU_MEMORY} is {have} MiB (the pod needs {need} MiB)"
        return (Reason(code=ReasonCode.GPU_MEMORY_TOO_SMALL, text=text, resolvable=False),)
    text = f"node(s) without the label {well_known.GPU_MEMORY} (the pod needs {need} MiB)"
    return (Reason(code=ReasonCode.GPU_MEMORY_UNKNOWN, text=text, resolvable=False),)
