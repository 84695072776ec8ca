"""What one run found and measured, as it is written and as the report reads it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gpuctl.doctor.finding import Finding, Level

FINDINGS_MAX = 100
SAMPLES_MAX = 10_000
NODES_MAX = 10_000


class NodeSummary(msgspec.Struct, frozen=True, rename="camel"):
    """One node with GPUs: resource -> amount in its capacity."""

    name: str
    kind: str
    capacity: Mapping[str, int]
    replicas: int = 1
    is_simulated: bool = False


class PriorityLevel(msgspec.Struct, frozen=True, rename="camel"):
    """One PriorityClass."""

    name: str
    value: int
    preempts: bool = True
    is_default: bool = False


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One run of ``gpuctl verify``; ``seconds`` are the measured durations by what they measure,
    ``metrics`` the number of series by metric name. ``ended_by`` is why the run ended before its
    last check: a signal, or a broken connection.
    """

    findings: tuple[Finding, ...]
    nodes: tuple[NodeSummary, ...] = ()
    priorities: tuple[PriorityLevel, ...] = ()
    seconds: Mapping[str, tuple[float, ...]] = {}
    metrics: Mapping[str, int] = {}
    ended_by: str = ""

    @property
    def failed(self) -> int:
        """The number of failed checks."""
        return sum(finding.level is Level.FAIL for finding in self.findings)
