"""What a process has used of memory at most, and what the chart allows it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import yaml

from tools.product import ROOT

_VALUES: Final = ROOT / "charts" / "gpu-scheduler" / "values.yaml"


def peak_mib(pid: int) -> float:
    """The kernel's high-water mark of resident memory; 0 for a process that is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0  # a process that waits to be reaped has no memory any more


def limits_mib() -> dict[str, int]:
    """The chart's memory limits by program."""
    values = yaml.safe_load(_VALUES.read_text(encoding="utf-8"))
    texts = {
        "scheduler": values["resources"]["limits"]["memory"],
        "webhook": values["webhook"]["resources"]["limits"]["memory"],
    }
    return {name: int(text.removesuffix("Mi")) for name, text in texts.items()}
