"""The resident memory of a process."""

from __future__ import annotations

import re
from pathlib import Path


def memory_mib(pid: int) -> dict[str, float]:
    """The resident memory of a process, now and at its peak."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    kib = {key: int(value) for key, value in re.findall(r"^(VmRSS|VmHWM):\s+(\d+)", status, re.M)}
    return {
        "rss_mib": round(kib["VmRSS"] / 1024, 1),
        "peak_mib": round(kib["VmHWM"] / 1024, 1),
    }
