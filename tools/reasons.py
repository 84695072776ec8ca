"""``python -m tools.reasons``: write docs/reasons.md from the scheduler's own table of codes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from scheduler.model.crd.migration_blockers import Blocker
from scheduler.model.reasons.condition_reason import ConditionReason
from scheduler.model.reasons.reason_code import ReasonCode, RequeueCause
from scheduler.plugins import REASON_CODES

PAGE: Final = Path(__file__).parents[1] / "docs" / "reasons.md"

HEAD: Final = """\
# Why a pod is pending

Look up the reason code of a pending pod here: its meaning, and the events after which the
scheduler tries the pod again. (Written by `python -m tools.reasons` from the reason codes of
`scheduler/plugins`; do not edit.)

The message is in the pod's condition `PodScheduled` and in its event `FailedScheduling`, in
kube-scheduler's words: a histogram of the nodes' reasons. `kubectl describe pod` shows both. The
metric `gpu_scheduler_rejections_total` counts rejected attempts by the code below.

The third column is the reason of the condition; an autoscaler reads it, see
[below](#what-an-autoscaler-reads). The reason of the event is always `FailedScheduling`.

A rejected pod is tried again after an event of the last column, and in any case every five minutes.
While other pods are due, it has a backoff of 1 s to 10 s.

"""

CONDITIONS: Final = """\
## What an autoscaler reads

cluster-autoscaler and Karpenter add a node for a pod if its condition `PodScheduled` has the
reason `Unschedulable` and `status.nominatedNodeName` is empty. So gpu-scheduler writes
`Unschedulable` only where another node would help. kube-scheduler writes that reason for every
rejected pod.

From `scheduler/model/reasons/condition_reason.py`. When nodes have different reasons, the
condition has `Unschedulable` if another node would help with one of them.

A map names its node, so no other node helps a pod with a map, and autoscalers add none for it. This
includes a map whose node does not exist: an autoscaler cannot create a node with a given name.

A message that ends in `can never be placed here: ...` means that no node of the cluster would fit
even if it were empty. The reason stays `Unschedulable` where a larger node would help, because an
autoscaler may have one. `NoSuchProfile` is about the GPU models of the existing nodes:
autoscalers add no node of a node group with another model until that group has its first node.

`status.nominatedNodeName` is set together with `WaitingForCapacity`, and cleared with the next
reason or by the Binding. [autoscalers.md](autoscalers.md) has the reasons by the state of the pod.
"""

MOVES: Final = """\
## Why a pod is not migrated to a better MIG tier

From `scheduler/model/crd/migration_blockers.py`; migrations are described in
[migrations.md](migrations.md). The metric `gpu_scheduler_migrations_total` counts blockers with an
event, by the code in lower case."""


def render() -> str:
    """The page's text."""
    lines = [
        "| code | meaning | reason of the condition | tried again when |",
        "|---|---|---|---|",
    ]
    for code in REASON_CODES.values():
        causes = "; ".join(cause.value for cause in code.lifted_by)
        lines.append(f"| `{code.name}` | {code.meaning} | {_reason(code)} | {causes} |")
    unused = [
        cause.value
        for cause in RequeueCause
        if not any(cause in code.lifted_by for code in REASON_CODES.values())
    ]
    assert not unused, f"nothing waits for: {', '.join(unused)}"
    return HEAD + "\n".join([*lines, *_of_conditions(), *_of_moves()]) + "\n"


def _reason(code: ReasonCode) -> str:
    if code.condition is not None:
        return f"`{code.condition}`"
    at_a_node, mapped = ConditionReason.UNSCHEDULABLE, ConditionReason.WAITING_FOR_MAPPED_NODE
    return f"`{at_a_node}`; with a map `{mapped}`"


def _of_conditions() -> list[str]:
    """The reasons of the condition, and for which of them autoscalers add nodes."""
    lines = ["", CONDITIONS, "| reason | meaning | autoscalers add nodes |", "|---|---|---|"]
    for one in ConditionReason:
        adds_nodes = "yes" if one is ConditionReason.UNSCHEDULABLE else "no"
        lines.append(f"| `{one}` | {one.meaning} | {adds_nodes} |")
    return lines


def _of_moves() -> list[str]:
    """The blockers of migrations."""
    lines = ["", MOVES, "| code | meaning | event |", "|---|---|---|"]
    for one in Blocker:
        event = (
            "`MigrationBlocked` on the pod"
            if one.has_event
            else "none: it clears by itself or is set by the user"
        )
        lines.append(f"| `{one.name}` | {one.meaning} | {event} |")
    return lines


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"docs/{PAGE.name}: {len(REASON_CODES)} reasons")
    return 0


if __name__ == "__main__":
    sys.exit(main())
