"""What the run has to show, judged by the API server's audit log and the kubelets' notes.

A wait is from the moment at which a pod's creation was asked for until its Binding's answer. Of
each wait counts what is outside of windows (``windows``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chaos.scene import CAPACITY
from tests.chaos.windows import Windows
from tests.controlplane.device_audit import Record, crimes, read
from tools.product import ACCOUNT

P99_MAX_S: Final = 5.0
#: Of the honest pods so many must have been created, or the run says nothing about them.
CREATED_MIN: Final = 0.8
BINDER: Final = "system:serviceaccount:" + ACCOUNT.replace("/", ":")


@dataclass(slots=True)
class Latency:
    """Waits of honest pods in seconds outside of windows; ``touched`` had a part in one."""

    waits: list[float] = field(default_factory=list)
    touched: int = 0

    def at(self, share: float) -> float:
        """The wait that this share of the pods did not exceed; 0 without pods."""
        if not self.waits:
            return 0.0
        ordered = sorted(self.waits)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def latency(records: Iterable[Record], windows: Windows) -> Latency:
    """Of every pod that was bound."""
    found = Latency()
    for record in records:
        for stay in record.stays:
            asked = record.created_at.get(stay.pod)
            if asked is None:
                continue
            wait = windows.outside(asked, stay.since)
            found.touched += wait < stay.since - asked
            found.waits.append(wait)
    return found


def late(found: Latency, wanted: int) -> list[str]:
    """What is wrong with the waits of so many pods that should have come."""
    problems = []
    if found.at(0.99) >= P99_MAX_S:
        problems.append(f"p99 of honest pods is {found.at(0.99):.1f} s, not below {P99_MAX_S:g} s")
    if len(found.waits) < CREATED_MIN * wanted:
        problems.append(f"{len(found.waits)} honest pods were placed instead of {wanted}")
    return problems


def records(log: Path, namespaces: Sequence[str]) -> tuple[list[Record], list[str]]:
    """What the scheduler's account did in each namespace, and which Bindings make no sense."""
    found, problems = [], []
    for namespace in namespaces:
        try:
            found.append(read(log, namespace, BINDER))
        except AssertionError as error:  # bound twice, or with devices that cannot be read
            problems.append(f"{namespace}: {error}")
            found.append(Record())
    return found, problems


def twice(found: Iterable[Record]) -> list[str]:
    """Devices that two pods held at once, whatever namespaces they are in."""
    stays = [stay for record in found for stay in record.stays]
    return [f"held twice: {text}" for text in crimes(stays, CAPACITY)]
