"""docs/scale.md has the limits that `gpuctl doctor` checks."""

from __future__ import annotations

import re
from pathlib import Path

from gpuctl.doctor.checks.memory import needed_mib, recommended_mib

PAGE = Path(__file__).parents[3] / "docs" / "scale.md"


def test_table_of_limits_is_that_of_doctor() -> None:
    rows = re.findall(
        r"^\| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \| (\d+)Mi \|$", PAGE.read_text(), re.M
    )
    found = [[int(cell.replace(",", "")) for cell in row] for row in rows]

    assert len(found) >= 5
    for nodes, pods, needed, limit in found:
        assert (needed, limit) == (needed_mib(nodes, pods), recommended_mib(needed))
