"""``python -m tools.limits``: write docs/limits.md from the scheduler's own table of bounds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from scheduler.model.limits import TABLE

PAGE: Final = Path(__file__).parents[1] / "docs" / "limits.md"

HEAD: Final = """\
# What is read, and up to where

Written by `python -m tools.limits` from `scheduler/model/limits.py`; not edited by hand.

Every number, list, depth and text in a pod, a node, a namespace or a review has a bound, which is
compared before the value is used. What is beyond the bound is refused with one line that says
where; other pods and nodes are not affected. Connections, heads and bodies of the HTTP ports have
bounds of their own: [security.md](security.md#what-outsiders-can-do-to-the-ports).

"""

TAIL: Final = """
Numbers are ASCII digits only. A pod of which a part cannot be read waits with the reason
`UNREADABLE`. If it already has a node, it holds an unknown part of it: no pod is placed there
until it is deleted or can be read (`NODE_UNREADABLE`; the pod gets an event `PodUnreadable`). The
metric `gpu_scheduler_unreadable_objects_total` counts such objects by kind.

Bytes from the network that are no list, no event or no object of the API count as a broken
connection: the kind is listed again after a pause, and `gpu_scheduler_relists_total` counts why.
"""


def render() -> str:
    """The page's text."""
    lines = ["| bound | at most | of what | beyond it | why so much |", "|---|---|---|---|---|"]
    for one in TABLE:
        most = f"{one.most:,} {one.unit}".strip()
        lines.append(f"| `{one.name}` | {most} | {one.source} | {one.beyond} | {one.why} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


def main() -> int:
    """Write the page."""
    PAGE.write_text(render(), encoding="utf-8")
    print(f"docs/{PAGE.name}: {len(TABLE)} bounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
