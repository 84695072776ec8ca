"""``python -m tools.reasons``: write docs/reasons.md from the scheduler's own table of codes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from scheduler.model.condition_reason import ConditionReason
from scheduler.model.crd.migration_blockers import Blocker
from scheduler.model.reason_code import ReasonCode, RequeueCause
from scheduler.plugins import REASON_CODES

PAGE: Final = Path(__file__).parents[1] / "docs" / "reasons.md"

HEAD: Final = """\
# Why a pod is pending

Written by `python -m tools.reasons` from the reason codes of `scheduler/plugins`; not edited by
hand.

What is wrong stands in the pod's condition `PodScheduled` and in its event `FailedScheduling`, in
kube-scheduler's words: how many nodes say what. `kubectl describe pod` shows both. The metric
`gpu_scheduler_rejections_total` counts refusals by the code below.

The condition's reason is in the third column: what it says to an autoscaler stands
[below](#what-an-autoscaler-reads). The event's reason is `FailedScheduling` whatever it is about.

A pod that was refused is tried again as soon as something in the last column happens, after a pause
that grows from 1 s to 10 s, and every five minutes in any case.

"""

CONDITIONS: Final = """\
## What an autoscaler reads

cluster-autoscaler and Karpenter take a pod for a wish for nodes if its condition `PodScheduled` has
the reason `Unschedulable` and `status.nominatedNodeName` is empty. So `Unschedulable` means that
another node would help, and nothing else. kube-scheduler gives that reason to every pod that it
refuses.

From `scheduler/model/condition_reason.py`. Where nodes say several things, the reason is
`Unschedulable` as soon as another node would help with one of them.

A map names its node, so no other node helps a mapped pod, and none is bought for it. That holds as
well while no node has the name: a node of that name may come, but an autoscaler cannot be asked for
it.

A sentence that ends in `can never be placed here: ...` says with numbers that no node here would do
if it were empty. The reason stays `Unschedulable` where a larger node would help, because an
autoscaler may know one. `NoSuchProfile` is about the GPU models of the nodes that are here: for a
node group of another model that has no node, nothing is bought until its first node is there.

`status.nominatedNodeName` is set together with `WaitingForCapacity`, and taken back with the next
reason or by the Binding.
"""

MOVES: Final = """\
## Why a pod is not moved to a better MIG tier

From `scheduler/model/crd/migration_blockers.py`; what a move is stands in [moves.md](moves.md). The
metric `gpu_scheduler_moves_total` counts what was told by the code in lower case."""


def render() -> str:
    """The page's text."""
    lines = [
        "| code | what it means | reason of the condition | tried again when |",
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
    """The reasons of the condition, and those that an autoscaler acts on."""
    lines = ["", CONDITIONS, "| reason | what it means | a wish for nodes |", "|---|---|---|"]
    for one in ConditionReason:
        is_wish = "yes" if one is ConditionReason.UNSCHEDULABLE else "no"
        lines.append(f"| `{one}` | {one.meaning} | {is_wish} |")
    return lines


def _of_moves() -> list[str]:
    """The reasons against a migration to a better tier."""
    lines = ["", MOVES, "| code | what it means | told |", "|---|---|---|"]
    for one in Blocker:
        told = "event `NotMoved` on the pod" if one.is_told else "no: it passes, or was chosen"
        lines.append(f"| `{one.name}` | {one.meaning} | {told} |")
    return lines


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"docs/{PAGE.name}: {len(REASON_CODES)} reasons")
    return 0


if __name__ == "__main__":
    sys.exit(main())
