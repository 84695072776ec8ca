"""Collects what this process knows about itself, for the page ``health``."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

import structlog
from prometheus_client.registry import Collector

from scheduler.config import Config
from scheduler.httpserver.build_info import version
from scheduler.model.timestamps import micro_time
from scheduler.report.dashboard.leadership import pod_of
from scheduler.report.dashboard.pages.health import (
    Build,
    CertificatePart,
    DecisionTimes,
    HealthFacts,
    Listeners,
    Watch,
    percentile,
    rounded_ms,
)
from scheduler.report.process import AnsweringProcess
from scheduler.report.wall_times import LoopTimes
from scheduler.state.event import BindOutcome

#: The decisions of which the times are taken.
SAMPLED_MAX: Final = 1_000
MINUTE_S: Final = 60.0
#: The certificate's file is read again after so long.
READ_AGAIN_S: Final = 60.0
CERTIFICATE: Final = "tls.crt"

log = structlog.get_logger("dashboard")


class Cache(Protocol):
    """What is read of a reflector."""

    kind: str
    is_vital: bool
    is_healthy: bool

    @property
    def is_listed(self) -> bool:
        """Whether its first list was delivered."""


class ProcessFacts:
    """The facts of one process, with the caches of its watches."""

    def __init__(
        self, process: AnsweringProcess, caches: Sequence[Cache], started: datetime
    ) -> None:
        self._identity = process.identity
        self._context = process.context
        self._journal = process.journal
        self._leadership = process.leadership
        self._caches = caches
        self._metrics = process.metrics
        self._clock = process.clock
        self._build = Build(
            version=version(), python=platform.python_version(), started=micro_time(started)
        )
        self._file = _certificate_file(process.config)
        self._expires: str | None = None
        self._read_at = float("-inf")

    def collect(self, times: LoopTimes, listeners: Listeners) -> HealthFacts:
        """The facts now."""
        cluster, led_since = self._context.cluster, self._leadership.led_since
        failures = _by_label(self._metrics.watch_failures, "kind")
        binds = _by_label(self._metrics.binds, "result")
        return HealthFacts(
            identity=self._identity,
            pod=pod_of(self._identity),
            leads_since=None if led_since is None else times.at(led_since),
            epoch=self._leadership.epoch,
            build=self._build,
            certificate=CertificatePart(expires=self._certificate(), file=self._file),
            watches=tuple(
                Watch(
                    kind=one.kind,
                    is_synced=one.is_listed,
                    is_healthy=one.is_healthy,
                    is_vital=one.is_vital,
                    failures=failures.get(one.kind, 0),
                )
                for one in sorted(self._caches, key=lambda one: one.kind)
            ),
            decisions=self._decisions(),
            binds={one.value: binds.get(one.value, 0) for one in BindOutcome},
            queue=self._context.queue.sizes(),
            cache={
                "nodes": sum(1 for _ in cluster.candidates()),
                "pods": len(cluster.pods),
                "assumed": len(cluster.assumed),
            },
            over_committed=_value(self._metrics.over_committed),
            internal_errors=_value(self._metrics.internal_errors),
            listeners=listeners,
        )

    def _decisions(self) -> DecisionTimes:
        records = list(islice(self._journal.newest(), SAMPLED_MAX))
        since = self._clock() - MINUTE_S
        took_s = sorted(one.took_s for one in records)
        return DecisionTimes(
            sampled=len(records),
            p50_ms=rounded_ms(percentile(took_s, 0.5)),
            p99_ms=rounded_ms(percentile(took_s, 0.99)),
            per_minute=sum(1 for one in records if one.at >= since),
        )

    def _certificate(self) -> str | None:
        """When the certificate expires; the file is read seldom."""
        now = self._clock()
        if self._file and now - self._read_at >= READ_AGAIN_S:
            self._read_at = now
            self._expires = _expiry(Path(self._file))
        return self._expires


def _certificate_file(config: Config) -> str:
    directory = config.certificates.directory or config.forward.cert_dir
    return str(Path(directory) / CERTIFICATE) if directory else ""


def _expiry(path: Path) -> str | None:
    # `cryptography` is an extra, which a scheduler without an own certificate need not have.
    try:
        from cryptography import x509

        found = x509.load_pem_x509_certificate(path.read_bytes())
    except (ImportError, OSError, ValueError) as error:
        log.debug("certificate unreadable", file=str(path), problem=str(error))
        return None
    return micro_time(found.not_valid_after_utc)


def _samples(collector: Collector) -> Iterable[tuple[dict[str, str], float]]:
    """The values of a counter or gauge by their labels."""
    for family in collector.collect():
        for sample in family.samples:
            if not sample.name.endswith("_created"):
                yield sample.labels, sample.value


def _by_label(collector: Collector, label: str) -> dict[str, int]:
    return {labels[label]: int(value) for labels, value in _samples(collector)}


def _value(collector: Collector) -> int:
    return int(sum(value for _, value in _samples(collector)))
