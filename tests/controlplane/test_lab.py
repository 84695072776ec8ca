"""``make lab`` on the real API server, with the checks of ``gpuctl verify`` and the report."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuctl.verify.report import CHECK_LIST
from tools.lab.parts import PARTS

ROOT = Path(__file__).parents[2]
#: The bound of `make lab` in CI; docs/verify.md states it.
LAB_MAX_S = 180


@pytest.mark.contract("S4-1", "S4-17", "S4-18", "S4-26")
def test_every_part_of_the_lab_runs_without_gpus(tmp_path: Path) -> None:
    """Nine of the ten checks are OK; no simulated node has a kubelet that runs a plugin."""
    path = tmp_path / "report.md"
    done = subprocess.run(
        [sys.executable, "-m", "tools.lab", "--report", str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=LAB_MAX_S,
    )

    assert done.returncode == 0, done.stderr
    assert all(name in done.stderr for name in PARTS)
    text = path.read_text()
    rows = text.partition("## Check list")[2].strip().splitlines()[2:]
    found = [row.split(" | ")[:2] for row in rows]
    assert [words[0].removeprefix("| ") for words in found] == [text for text, _ in CHECK_LIST]
    assert [words[1] for words in found] == ["SKIP", *["OK"] * 9]
    assert "- fallback: OK" in text
    assert "gpu-node-3" in text
