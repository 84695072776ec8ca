"""What a node's annotations make fail, as users write it.

gpu-scheduler.io/fake-failures: "1:xid-79,3:off-bus"      GPUs by index; empty: all recover
gpu-scheduler.io/fake-allocatable: "nvidia.com/gpu=2"     less than is used, if one likes
gpu-scheduler.io/fake-mig: "latency=5s,fail=0.5"          repartitions: slow, or failing
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from fakegpu import names
from fakegpu.topology.invalid import Invalid
from fakegpu.topology.node_topology import Failure

#: Errors of applications: NVIDIA's device plugin keeps such a GPU healthy, and so does this one.
XID_OF_APPLICATIONS: Final = frozenset((13, 31, 43, 45, 68, 109))
XID_OFF_BUS: Final = 79
_FAILURE: Final = re.compile(r"([0-9]{1,3}):(?:xid-([0-9]{1,3})|(off-bus))")
_AMOUNT: Final = re.compile(r"([A-Za-z0-9./_-]{1,253})=([0-9]{1,9})")
_SECONDS: Final = re.compile(r"latency=([0-9]{1,4}(?:\.[0-9]{1,3})?)s?")
_RATE: Final = re.compile(r"fail=(0(?:\.[0-9]{1,3})?|1(?:\.0{1,3})?)")


class MigFaults(msgspec.Struct, frozen=True):
    """The duration of a repartition, and the failing part; None: as configured."""

    latency_s: float | None = None
    fail_rate: float | None = None


class Faults(msgspec.Struct, frozen=True):
    """All faults; ``problems`` are invalid annotations, each ignored separately."""

    failures: dict[int, Failure] = {}
    allocatable: dict[str, int] = {}
    mig: MigFaults = MigFaults()
    problems: tuple[str, ...] = ()

    @property
    def unusable(self) -> tuple[int, ...]:
        """Indexes of GPUs that must not be used."""
        return tuple(i for i, failure in sorted(self.failures.items()) if is_fatal(failure))


def is_fatal(failure: Failure) -> bool:
    """Whether a GPU must not be used any more."""
    return failure.off_bus or failure.xid not in XID_OF_APPLICATIONS


def read(annotations: Mapping[str, str]) -> Faults:
    """The faults of a node with these annotations."""
    failures: dict[int, Failure] = {}
    allocatable: dict[str, int] = {}
    mig = MigFaults()
    problems = []
    try:
        failures = parse_failures(annotations.get(names.FAILURES, ""))
    except Invalid as problem:
        problems.append(str(problem))
    try:
        allocatable = _parse_amounts(annotations.get(names.ALLOCATABLE, ""))
    except Invalid as problem:
        problems.append(str(problem))
    try:
        mig = _parse_mig(annotations.get(names.MIG_FAULTS, ""))
    except Invalid as problem:
        problems.append(str(problem))
    return Faults(failures, allocatable, mig, tuple(problems))


def parse_failures(text: str) -> dict[int, Failure]:
    """``1:xid-79,3:off-bus`` by index, or Invalid."""
    found: dict[int, Failure] = {}
    for part in _parts(text):
        match = _FAILURE.fullmatch(part)
        if match is None:
            raise Invalid(names.FAILURES, f"expected INDEX:xid-N or INDEX:off-bus, got {part!r}")
        off_bus = bool(match[3])
        found[int(match[1])] = Failure(XID_OFF_BUS if off_bus else int(match[2]), off_bus)
    return found


def _parse_amounts(text: str) -> dict[str, int]:
    found = {}
    for part in _parts(text):
        match = _AMOUNT.fullmatch(part)
        if match is None:
            raise Invalid(names.ALLOCATABLE, f"expected RESOURCE=COUNT, got {part!r}")
        found[match[1]] = int(match[2])
    return found


def _parse_mig(text: str) -> MigFaults:
    latency_s = rate = None
    for part in _parts(text):
        if match := _SECONDS.fullmatch(part):
            latency_s = float(match[1])
        elif match := _RATE.fullmatch(part):
            rate = float(match[1])
        else:
            raise Invalid(names.MIG_FAULTS, f"expected latency=SECONDS or fail=0..1, got {part!r}")
    return MigFaults(latency_s, rate)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
