"""The lines of the demo's table, and the comparison with the expected lines.

The expected lines are written by hand next to each scenario. The simulator's result is no
reference, because it comes from the code under test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gpuctl.output import table
from gpuctl.simulate.manifests import Document
from gpuctl.simulate.result import Row

SCENARIOS: Final = Path(__file__).parent / "scenarios"
NAMES: Final = ("map", "mig")
NOTHING: Final = "nothing"
#: Column of the table -> field of a Line.
COLUMNS: Final = {
    "PODS": "count",
    "NODE": "node",
    "TIER": "tier",
    "DEVICES": "devices",
    "CUDA_VISIBLE_DEVICES": "cuda",
}


class Line(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``count`` equal pods of one workload; ``node`` is None while they are pending.

    An expected ``reason`` is a part of the observed one.
    """

    pods: str
    count: int = 1
    node: str | None = None
    tier: str = ""
    devices: str | None = None
    cuda: str | None = None
    reason: str = ""


class Act(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The last step of a scenario: the deletion of a pod, and the lines that change."""

    delete: str
    lines: tuple[Line, ...]


class Expected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The expected lines of a scenario, before and after its last step."""

    lines: tuple[Line, ...]
    then: Act | None = None


def scenario_file(name: str) -> Path:
    """The manifests of a scenario, also an input of ``gpuctl simulate``."""
    return SCENARIOS / f"{name}.yaml"


def expected(name: str) -> Expected:
    """The expected lines of a scenario."""
    content = (SCENARIOS / f"{name}.expected.yaml").read_bytes()
    return msgspec.yaml.decode(content, type=Expected)


class Workloads:
    """Maps pods to objects of the input; the pods of a StatefulSet keep their names."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._order = {document.name: number for number, document in enumerate(documents)}
        grouped = {d.name for d in documents if d.kind in ("Deployment", "ReplicaSet", "Job")}
        # The longest first, so that a pod of web-2 does not match web.
        self._grouped = sorted(grouped, key=len, reverse=True)

    def of(self, pod_name: str) -> str:
        """The workload's name, or the pod's own."""
        return next((w for w in self._grouped if pod_name.startswith(f"{w}-")), pod_name)

    def lines(self, rows: Iterable[Row]) -> list[Line]:
        """The rows as lines: in the order of the input, best tier first, pending pods last."""
        counted: dict[Line, int] = {}
        reasons: dict[Line, str] = {}
        for row in rows:
            line = Line(
                pods=self.of(row.pod),
                node=row.node,
                tier=table.tier(row),
                devices=row.devices,
                cuda=row.cuda_visible_devices,
            )
            counted[line] = counted.get(line, 0) + 1
            if row.node is None and row.reason:
                reasons.setdefault(line, row.reason)
        return [
            msgspec.structs.replace(line, count=counted[line], reason=reasons.get(line, ""))
            for line in sorted(counted, key=self._place)
        ]

    def _place(self, line: Line) -> tuple[int, bool, int, str]:
        name = line.pods if line.pods in self._order else line.pods.rpartition("-")[0]
        at = self._order.get(name, len(self._order))
        return at, line.node is None, len(line.tier), line.node or ""


def differences(wanted: Sequence[Line], seen: Sequence[Line]) -> list[str]:
    """Every differing cell, with the expected and the observed value."""
    cells: list[str] = []
    for pods in dict.fromkeys(line.pods for line in (*wanted, *seen)):
        ours = [line for line in wanted if line.pods == pods]
        theirs = [line for line in seen if line.pods == pods]
        for want, have in _pairs(ours, theirs):
            cells += _cells(want, have)
    return cells


def cell_count(wanted: Iterable[Line]) -> int:
    """The number of compared cells."""
    return sum(len(COLUMNS) + bool(line.reason) for line in wanted)


def _pairs(ours: list[Line], theirs: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Expected and observed lines; a line without a partner is paired with a count of 0."""
    if len(ours) == len(theirs) == 1:
        yield ours[0], theirs[0]
        return
    rest = {(line.node, line.tier): line for line in theirs}
    for line in ours:
        yield line, rest.pop((line.node, line.tier), msgspec.structs.replace(line, count=0))
    for line in rest.values():
        yield msgspec.structs.replace(line, count=0, reason=""), line


def _cells(want: Line, have: Line) -> Iterator[str]:
    place = want.pods if want.count == 1 else f"{want.pods} on {want.node or NOTHING} ({want.tier})"
    for column, field in COLUMNS.items():
        expects, sees = getattr(want, field), getattr(have, field)
        if expects != sees:
            yield f"{place}, {column}: expected {_shown(expects)}, seen {_shown(sees)}"
    if want.reason and want.reason not in have.reason:
        yield f"{place}, reason: expected {want.reason}, seen {_shown(have.reason)}"


def _shown(value: object) -> str:
    return NOTHING if value in (None, "") else str(value)
