"""The series of a registry, as a Prometheus would scrape them."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry


def series_of(
    registry: CollectorRegistry, name: str, labels: Sequence[str]
) -> dict[tuple[str, ...], float]:
    """Label values in this order -> value of one family; zeros left out."""
    return {
        tuple(sample.labels[label] for label in labels): sample.value
        for family in registry.collect()
        if family.name == name
        for sample in family.samples
        if sample.value
    }
