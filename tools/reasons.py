"""``python -m tools.reasons``: write docs/reasons.md from the scheduler's own table of codes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from scheduler.model.code import Cause, Code
from scheduler.model.obstacle import Obstacle

PAGE: Final = Path(__file__).parents[1] / "docs" / "reasons.md"

HEAD: Final = """\
# Why a pod is pending

Written by `python -m tools.reasons` from `scheduler/model/code.py`; not edited by hand.

What is wrong stands in the pod's condition `PodScheduled` and in its event `FailedScheduling`, in
kube-scheduler's words: how many nodes say what. `kubectl describe pod` shows both. The metric
`gpu_scheduler_rejections_total` counts refusals by the code below.

A pod that was refused is tried again as soon as something in the last column happens, after a pause
that grows from 1 s to 10 s, and every five minutes in any case.

"""

MOVES: Final = """\
## Why a pod is not moved to a better MIG tier

From `scheduler/model/obstacle.py`; what a move is stands in [moves.md](moves.md). The metric
`gpu_scheduler_moves_total` counts what was told by the code in lower case.
"""


def render() -> str:
    """The page's text."""
    lines = ["| code | what it means | tried again when |", "|---|---|---|"]
    for code in Code:
        causes = "; ".join(cause.value for cause in code.causes)
        lines.append(f"| `{code.name}` | {code.meaning} | {causes} |")
    unused = [cause.value for cause in Cause if not any(cause in code.causes for code in Code)]
    assert not unused, f"nothing waits for: {', '.join(unused)}"
    return HEAD + "\n".join([*lines, *_of_moves()]) + "\n"


def _of_moves() -> list[str]:
    """Why a pod stays where it is although it could have a better tier."""
    lines = ["", MOVES, "| code | what it means | told |", "|---|---|---|"]
    for one in Obstacle:
        told = "event `NotMoved` on the pod" if one.is_told else "no: it passes, or was chosen"
        lines.append(f"| `{one.name}` | {one.meaning} | {told} |")
    return lines


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"docs/{PAGE.name}: {len(Code)} reasons")
    return 0


if __name__ == "__main__":
    sys.exit(main())
