"""Checks the pods: those that wait, and those of other schedulers with GPUs. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gpuctl.doctor.facts import Facts, PodsSeen, Unread
from gpuctl.doctor.finding import NAMES_SHOWN_MAX, Finding, listed, ok, unread, warn

#: Of a pod that waits longer the reason is worth a look.
WAIT_WARN_S: Final = 15 * 60
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))


def on_pods(facts: Facts) -> Iterable[Finding]:
    """Findings about pods of other schedulers, and about pods that wait."""
    if isinstance(facts.pods, Unread):
        yield unread("pods", facts.pods)
        return
    yield _neighbours(facts.pods)
    yield _waiting(facts.pods)


def _neighbours(pods: PodsSeen) -> Finding:
    if not pods.neighbours:
        return ok("neighbours", "no other scheduler places pods with GPUs")
    said = [
        f"{one.scheduler} placed {one.pods} on {listed(one.nodes)}"
        for one in pods.neighbours[:NAMES_SHOWN_MAX]
    ]
    return warn(
        "neighbours",
        f"pods with GPUs of other schedulers: {'; '.join(said)}",
        "reserve the nodes: value nodePartition.enabled of the chart (docs/dra.md), or let no other"
        " scheduler use them",
    )


def _waiting(pods: PodsSeen) -> Finding:
    found = pods.waiting
    if not found.pods:
        return ok("pods", f"none of {pods.count} waits")
    codes = listed([f"{count} {code}" for code, count in found.codes])
    verb = "waits" if found.pods == 1 else "wait"
    says = f"{found.pods} {verb}, oldest {_age(found.oldest_s)}, {codes}"
    if found.oldest_s < WAIT_WARN_S:
        return ok("pods", says)
    return warn("pods", says, "gpuctl why -A")


def _age(seconds: float) -> str:
    """
    >>> _age(1100)
    '18m'
    """
    for unit_s, name in _UNITS:
        if seconds >= unit_s:
            return f"{seconds // unit_s:.0f}{name}"
    return f"{seconds:.0f}s"
