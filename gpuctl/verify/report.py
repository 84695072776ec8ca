"""The Markdown report of one run of ``gpuctl verify``: every number in it was measured. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gpuctl.doctor.finding import Finding
from gpuctl.verify.result import NodeSummary, Result
from gpuctl.verify.trial import POLL_S

#: The check list of the lab: its words, and the check of verify that answers.
CHECK_LIST: Final = (
    ("Device plugin running on all GPU nodes", "plugin"),
    ("GPU resources visible in node capacity", "resources"),
    ("Priority classes created", "priorities"),
    ("High priority pods can preempt low priority", "preemption"),
    ("Node affinity correctly routes to GPU types", "affinity"),
    ("Taints prevent non-GPU workloads", "taints"),
    ("Tolerations allow GPU workloads", "toleration"),
    ("DCGM exporter collecting metrics", "metrics"),
    ("Grafana showing GPU utilization", "dashboard"),
    ("Time-slicing allows GPU sharing", "sharing"),
)
#: What a duration is, by its key in the result.
MEASURED: Final = {
    "place": "a pod is bound after its creation",
    "share": "a pod with a share is bound",
    "preempt": "a pod of high priority has the GPU of one of low priority",
}
_CELL_MAX: Final = 300


def report(result: Result) -> str:
    """The report's text."""
    parts = (
        ["# GPU scheduling: what was measured", ""],
        [f"The run ended early: {result.ended_by}", ""] if result.ended_by else [],
        _strategy(result),
        _priorities(result),
        _monitoring(result),
        _performance(result),
        _check_list(result.findings),
    )
    return "\n".join(line for part in parts for line in part).rstrip() + "\n"


def _strategy(result: Result) -> Iterator[str]:
    yield from ("## GPU allocation strategy", "")
    kinds: dict[tuple[str, int], list[NodeSummary]] = defaultdict(list)
    for node in result.nodes:
        kinds[node.kind or "unknown", node.replicas].append(node)
    rows = (
        (kind, str(len(nodes)), _capacity(nodes), "none" if replicas == 1 else f"{replicas} shares")
        for (kind, replicas), nodes in sorted(kinds.items())
    )
    yield from _table(("GPU type", "nodes", "capacity", "sharing of a GPU"), rows)
    about = ("place", "affinity", "taints", "toleration", "sharing", "fallback", "honours", "share")
    yield from _findings(result, *about)


def _capacity(nodes: Iterable[NodeSummary]) -> str:
    total: dict[str, int] = defaultdict(int)
    for node in nodes:
        for resource, count in node.capacity.items():
            total[resource] += count
    return ", ".join(f"{count} {resource}" for resource, count in sorted(total.items()))


def _priorities(result: Result) -> Iterator[str]:
    yield from ("## Priority policies", "")
    rows = (
        (level.name, str(level.value), _yes(level.preempts), _yes(level.is_default))
        for level in result.priorities
    )
    yield from _table(("PriorityClass", "value", "preempts", "default"), rows)
    yield from _findings(result, "priorities", "preemption")


def _monitoring(result: Result) -> Iterator[str]:
    yield from ("## Monitoring setup", "")
    rows = ((name, str(count)) for name, count in sorted(result.metrics.items()))
    yield from _table(("metric", "series"), rows)
    yield from _findings(result, "metrics", "dashboard")


def _performance(result: Result) -> Iterator[str]:
    yield from ("## Performance observations", "")
    rows = (
        (MEASURED.get(what, what), str(len(found)), *_spread(found))
        for what, found in sorted(result.seconds.items())
        if found
    )
    yield from _table(("until", "measured", "median s", "longest s"), rows)
    yield from (f"A duration begins before the pod is created, and is exact to {POLL_S:g} s.", "")


def _spread(found: Sequence[float]) -> tuple[str, str]:
    return f"{statistics.median(found):.2f}", f"{max(found):.2f}"


def _check_list(findings: Iterable[Finding]) -> Iterator[str]:
    yield from ("## Check list", "")
    by_name = {finding.about: finding for finding in findings}
    rows = (
        (text, by_name[about].level.value, by_name[about].says)
        if about in by_name
        else (text, "SKIP", "not checked")
        for text, about in CHECK_LIST
    )
    yield from _table(("check", "result", "what was seen"), rows)


def _findings(result: Result, *about: str) -> Iterator[str]:
    by_name = {finding.about: finding for finding in result.findings}
    found = [by_name[name] for name in about if name in by_name]
    for finding in found:
        yield f"- {finding.about}: {finding.level.value}, {_cell(finding.says)}"
    yield ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(map(_cell, row))} |"
    yield ""


def _cell(text: str) -> str:
    """A text from the cluster as one bounded cell."""
    return " ".join(text[:_CELL_MAX].split()).replace("|", "\\|")


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"
