"""The page of the scheduler itself: leader, watches, certificate, latency, errors, and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Final, Literal

from scheduler.model.timestamps import epoch, second_time
from scheduler.report.dashboard.pages.page import Shape

CheckState = Literal["ok", "warn", "fail"]

#: A pod that waits longer than this is worth a look (the alert of the chart has the same).
WAIT_LONG_S: Final = 900.0
#: The rotator renews a certificate much earlier.
CERTIFICATE_SOON_S: Final = 7 * 86_400.0
DECISION_SLOW_MS: Final = 100.0
#: Failed Bindings of a hundred that are worth a look.
BINDS_FAILED_PERCENT: Final = 1
_NOT_BOUND: Final = ("refused", "unreachable", "unsent")


class Watch(Shape, frozen=True, kw_only=True):
    """The watch of one kind. While that of a vital one is broken, no pod is placed."""

    kind: str
    is_synced: bool
    is_healthy: bool
    is_vital: bool
    failures: int


class Build(Shape, frozen=True, kw_only=True):
    """The program, and when this process started."""

    version: str
    python: str
    started: str


class CertificatePart(Shape, frozen=True, kw_only=True):
    """The certificate that the replicas and the webhook show; null without one."""

    expires: str | None
    file: str


class DecisionTimes(Shape, frozen=True, kw_only=True):
    """The time that the last decisions took; null without any."""

    sampled: int
    p50_ms: float | None
    p99_ms: float | None
    per_minute: int


class Listeners(Shape, frozen=True, kw_only=True):
    """The pages that are open."""

    open: int
    max: int


class HealthFacts(Shape, frozen=True, kw_only=True):
    """What the process knows about itself."""

    identity: str
    pod: str
    leads_since: str | None
    epoch: int | None
    build: Build
    certificate: CertificatePart
    watches: tuple[Watch, ...]
    decisions: DecisionTimes
    binds: Mapping[str, int]
    queue: Mapping[str, int]
    cache: Mapping[str, int]
    over_committed: int
    internal_errors: int
    listeners: Listeners


class Check(Shape, frozen=True, kw_only=True):
    """One fact with its judgement."""

    name: str
    state: CheckState
    text: str


class HealthPage(HealthFacts, frozen=True, kw_only=True):
    """The facts, and the checks of them."""

    checks: tuple[Check, ...]


def health_page(facts: HealthFacts, oldest: str | None, now: datetime) -> HealthPage:
    """The page; ``oldest`` is since when the oldest waiting pod waits."""
    fields = {name: getattr(facts, name) for name in facts.__struct_fields__}
    return HealthPage(**fields, checks=tuple(checks(facts, oldest, now)))


def checks(facts: HealthFacts, oldest: str | None, now: datetime) -> Iterator[Check]:
    """What is well, and what is not."""
    yield _leader(facts)
    yield _watches(facts.watches)
    if facts.certificate.expires is not None:
        yield _certificate(facts.certificate.expires, now)
    yield _queue(facts.queue, oldest, now)
    yield _decisions(facts.decisions)
    yield _binds(facts.binds)
    yield Check(
        name="devices",
        state="fail" if facts.over_committed else "ok",
        text=f"{facts.over_committed} devices are assigned beyond what their nodes have"
        if facts.over_committed
        else "no device is assigned twice",
    )
    yield Check(
        name="errors",
        state="warn" if facts.internal_errors else "ok",
        text=f"{facts.internal_errors} internal errors since the start: see the log"
        if facts.internal_errors
        else "no internal error since the start",
    )


def _leader(facts: HealthFacts) -> Check:
    term = "" if facts.epoch is None else f" in term {facts.epoch}"
    since = "" if facts.leads_since is None else f" since {_short(facts.leads_since)}"
    return Check(name="leader", state="ok", text=f"{facts.pod} leads{term}{since}")


def _watches(watches: tuple[Watch, ...]) -> Check:
    broken = [one for one in watches if not one.is_healthy]
    vital = [one.kind for one in broken if one.is_vital]
    if vital:
        text = f"broken: {', '.join(vital)}; no pod is placed until they are open again"
        return Check(name="watches", state="fail", text=text)
    if broken:
        text = f"broken: {', '.join(one.kind for one in broken)}"
        return Check(name="watches", state="warn", text=text)
    return Check(name="watches", state="ok", text=f"all {len(watches)} watches are open")


def _certificate(expires: str, now: datetime) -> Check:
    left_s = (epoch(expires) or 0.0) - now.timestamp()
    if left_s <= 0:
        return Check(name="certificate", state="fail", text=f"expired at {_short(expires)}")
    state: CheckState = "warn" if left_s < CERTIFICATE_SOON_S else "ok"
    return Check(name="certificate", state=state, text=f"valid until {_short(expires)}")


def _queue(queue: Mapping[str, int], oldest: str | None, now: datetime) -> Check:
    count = sum(queue.values())
    if not count or oldest is None:
        return Check(name="queue", state="ok", text="no pod waits")
    wait_s = now.timestamp() - (epoch(oldest) or 0.0)
    state: CheckState = "warn" if wait_s > WAIT_LONG_S else "ok"
    words = "1 pod waits" if count == 1 else f"{count} pods wait"
    return Check(name="queue", state=state, text=f"{words}, the oldest since {_short(oldest)}")


def _decisions(times: DecisionTimes) -> Check:
    if times.p99_ms is None:
        return Check(name="decisions", state="ok", text="no decision yet")
    state: CheckState = "warn" if times.p99_ms > DECISION_SLOW_MS else "ok"
    text = f"99 of 100 decisions took at most {times.p99_ms:g} ms"
    return Check(name="decisions", state=state, text=text)


def _binds(binds: Mapping[str, int]) -> Check:
    total, failed = sum(binds.values()), sum(binds.get(name, 0) for name in _NOT_BOUND)
    if not failed:
        text = "every Binding was accepted" if total else "no Binding yet"
        return Check(name="binds", state="ok", text=text)
    state: CheckState = "warn" if failed * 100 > total * BINDS_FAILED_PERCENT else "ok"
    text = f"{failed} of {total} Bindings failed; their pods are tried again"
    return Check(name="binds", state=state, text=text)


def _short(timestamp: str) -> str:
    try:
        return second_time(datetime.fromisoformat(timestamp))
    except ValueError:
        return timestamp


def percentile(sorted_values: list[float], part: float) -> float | None:
    """The value at this part of a sorted list (nearest rank); None for an empty one.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([7.0], 0.99), percentile([], 0.5)
    (2.0, 7.0, None)
    """
    if not sorted_values:
        return None
    return sorted_values[max(0, -(-int(part * 1000) * len(sorted_values) // 1000) - 1)]


def rounded_ms(seconds: float | None) -> float | None:
    """Milliseconds with three digits behind the point."""
    return None if seconds is None else round(seconds * 1000, 3)
