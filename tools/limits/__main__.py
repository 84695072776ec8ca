"""``python -m tools.limits``: write docs/limits.md from the table of limits."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from tools.limits.table import TABLE

PAGE: Final = Path(__file__).parents[2] / "docs" / "limits.md"

HEAD: Final = """\
# Limits on input

Look up here how large a field may be and what happens to an object that exceeds a limit. (Written
by `python -m tools.limits` from `tools/limits/table.py`; do not edit.)

Every number, list, depth and text in a pod, a node, a namespace or a review has a limit that is
checked before the value is used. A value beyond its limit is rejected with one line that names the
field; other pods and nodes are not affected. The connections, headers and bodies of the HTTP ports
have limits of their own: [security.md](security.md#what-outsiders-can-do-to-the-ports).

"""

TAIL: Final = """
Numbers are ASCII digits only. A pod with an invalid field is pending with the code `UNREADABLE`.
If the pod already has a node, its resource usage there is unknown: no pod is placed on the node
until the pod is deleted or corrected (`NODE_UNREADABLE`; the pod gets the event `PodUnreadable`).
The metric `gpu_scheduler_unreadable_objects_total` counts such objects by kind.

A response that is not a list, an event or an object of the API counts as a broken connection: the
kind is listed again after a backoff, and `gpu_scheduler_relists_total` counts the reason.
"""


def render() -> str:
    """The page's text."""
    lines = [
        "| limit | at most | of | beyond the limit | basis of the value |",
        "|---|---|---|---|---|",
    ]
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
