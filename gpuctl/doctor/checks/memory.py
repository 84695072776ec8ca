"""Compares the memory limit of the scheduler's container with the size of the cluster. Pure.

The need is the peak of ``bench.scale`` (docs/scale.md): the first LIST of pods is decoded while the
cache of it grows. Larger objects need more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuctl.doctor.facts import Facts, MemoryLimit, Unread
from gpuctl.doctor.finding import Finding, ok, unread, warn

ABOUT: Final = "memory"
#: The peak of a process without objects, and what each object adds (bench.scale, docs/scale.md).
BASE_MIB: Final = 85
NODE_KIB: Final = 10
POD_KIB: Final = 12
#: The share of the limit that the need may take: events, backlogs and larger objects come on top.
SHARE_MAX: Final = 0.8
#: A recommended limit is a multiple of it.
STEP_MIB: Final = 256


def needed_mib(nodes: int, pods: int) -> int:
    """The expected peak memory of a scheduler, in MiB."""
    return round(BASE_MIB + (nodes * NODE_KIB + pods * POD_KIB) / 1024)


def recommended_mib(needed: int) -> int:
    """The smallest limit of which the need is at most ``SHARE_MAX``, rounded up.

    >>> recommended_mib(300)
    512
    """
    return -(-int(needed / SHARE_MAX) // STEP_MIB) * STEP_MIB


def on_memory(facts: Facts) -> Iterable[Finding]:
    """Whether the scheduler's container has enough memory for the nodes and pods.

    The checks of nodes and pods report that these cannot be read.
    """
    if isinstance(facts.memory_limit, Unread):
        yield unread(ABOUT, facts.memory_limit)
    elif not isinstance(facts.nodes, Unread) and not isinstance(facts.pods, Unread):
        yield _compared(len(facts.nodes), facts.pods.count, facts.memory_limit, facts.namespace)


def _compared(nodes: int, pods: int, limit: MemoryLimit | None, namespace: str) -> Finding:
    needed = needed_mib(nodes, pods)
    says = f"{nodes} nodes and {pods} pods need about {needed} MiB"
    if limit is None:
        return ok(ABOUT, f"{says}; no Deployment with a memory limit in {namespace}")
    limit_mib = limit.limit_bytes // 2**20
    says += f" of the limit of {limit_mib} MiB of {limit.owner}"
    if needed > limit_mib * SHARE_MAX:
        return warn(
            ABOUT,
            says,
            f"set resources.limits.memory of the chart to {recommended_mib(needed)}Mi"
            " (docs/scale.md)",
        )
    return ok(ABOUT, says)
