"""Renders our charts for tests, each combination once."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import yaml

from fakegpu.config import Config, parse
from tools.charts.copies import CHARTS
from tools.charts.helm import template

Json = dict[str, Any]
SCHEDULER = CHARTS / "gpu-scheduler"
CHECK = CHARTS / "gpu-scheduler-check"
FAKE = CHARTS / "fake-gpu-operator"
#: Release and namespace by which the seed installs each chart.
PLACES = {
    "gpu-scheduler": ("gpu-scheduler", "gpu-scheduler-system"),
    "gpu-scheduler-check": ("gpu-test", "gpu-scheduler-tests"),
    "fake-gpu-operator": ("gpu-operator", "gpu-operator"),
}


def variants() -> list[Path]:
    """Every values file that a chart brings along."""
    return sorted(CHARTS.glob("*/ci/*-values.yaml"))


def of(values: Path) -> Path:
    """The chart of a values file."""
    return values.parents[1]


@functools.cache
def text(chart: Path, *words: str | Path, release: str = "", namespace: str = "") -> str:
    """What helm prints."""
    default_release, default_namespace = PLACES.get(chart.name, (chart.name, chart.name))
    return template(
        chart,
        release=release or default_release,
        namespace=namespace or default_namespace,
        words=words,
    )


def objects(
    chart: Path = SCHEDULER, *words: str | Path, release: str = "", namespace: str = ""
) -> list[Json]:
    """The objects."""
    rendered = text(chart, *words, release=release, namespace=namespace)
    return [one for one in yaml.safe_load_all(rendered) if one]


def but_for_the_authority(rendered: str) -> str:
    """A rendering without the one thing that chance decides: the webhook's authority."""
    return re.sub(
        r"^( *(?:caBundle|ca\.crt|ca\.key)): \S+$", r"\1: MADE", rendered, flags=re.MULTILINE
    )


def settings(*sets: str) -> tuple[str, ...]:
    """``--set`` for each."""
    return tuple(word for one in sets for word in ("--set", one))


def preset(name: str, chart: Path = SCHEDULER) -> tuple[str, Path]:
    """``--values`` with one of the chart's own files."""
    return ("--values", chart / "ci" / f"{name}-values.yaml")


def one(found: list[Json], kind: str, name: str = "") -> Json:
    """The one object of a kind, of a name if there are several."""
    matching = [
        obj
        for obj in found
        if obj["kind"] == kind and (not name or obj["metadata"]["name"] == name)
    ]
    assert len(matching) == 1, f"{len(matching)} objects are {kind} {name}"
    return matching[0]


def kinds(found: list[Json]) -> set[str]:
    """Which kinds there are."""
    return {obj["kind"] for obj in found}


def containers(deployment: Json) -> dict[str, Json]:
    """A workload's containers by name."""
    spec = deployment["spec"]["template"]["spec"]
    return {container["name"]: container for container in spec["containers"]}


def config_file(found: list[Json]) -> str:
    """The fake operator's configuration, as it is written."""
    written: str = one(found, "ConfigMap", "fake-gpu-operator-config")["data"]["config.yaml"]
    return written


def config_of(found: list[Json]) -> Config:
    """The same, read by its own code."""
    return parse(config_file(found).encode())
