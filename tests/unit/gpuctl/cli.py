"""gpuctl, called as a person calls it: words and files in; status, text and rows out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from click.testing import CliRunner

from gpuctl.__main__ import main

ROOT = Path(__file__).parents[3]
SCENARIOS = ROOT / "tools" / "demo" / "scenarios"

Json = dict[str, Any]


class CommandOutput(NamedTuple):
    """What a command wrote, and its exit status."""

    status: int
    out: str
    err: str


def gpuctl(*words: str, stdin: str | None = None) -> CommandOutput:
    """Run one command; an exception that it does not explain fails the test."""
    result = CliRunner().invoke(main, words, input=stdin, catch_exceptions=False)
    return CommandOutput(result.exit_code, result.stdout, result.stderr)


def rows(*objects: Json | str, options: tuple[str, ...] = ()) -> list[Json]:
    """The rows that ``gpuctl simulate -o json`` writes for these objects (or YAML texts)."""
    texts = [each if isinstance(each, str) else yaml.safe_dump(each) for each in objects]
    result = gpuctl("simulate", "-o", "json", *options, "-", stdin="\n---\n".join(texts))
    assert result.status == 0, result.err
    found: list[Json] = json.loads(result.out)
    return found


def places(found: list[Json]) -> dict[str, str | None]:
    """Pod -> node."""
    return {row["pod"]: row["node"] for row in found}


def node(name: str, labels: Json | None = None, **offered: int) -> Json:
    """A node; ``gpu``, ``mig_2g`` and ``mig_1g`` are its amounts."""
    known = {
        "gpu": "nvidia.com/gpu",
        "mig_2g": "nvidia.com/mig-2g.20gb",
        "mig_1g": "nvidia.com/mig-1g.10gb",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"allocatable": {known[word]: str(count) for word, count in offered.items()}},
    }


def spec(resource: str = "", count: int = 1, **fields: Any) -> Json:
    """A pod's spec, for our scheduler by default."""
    container: Json = {"name": "c", "image": "x"}
    if resource:
        container["resources"] = {"limits": {resource: count}}
    return {"schedulerName": "gpu-scheduler", "containers": [container], **fields}


def pod(name: str, wanted: Json, **metadata: Any) -> Json:
    """A pod as a person writes it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": wanted,
    }


def workload(
    kind: str, name: str, wanted: Json, annotations: Json | None = None, **of: Any
) -> Json:
    """A StatefulSet, Deployment, ReplicaSet or Job around a pod's spec."""
    labels = {"app": name}
    wanted = {"restartPolicy": "Never", **wanted} if kind == "Job" else wanted
    own: Json = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    return {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": labels, "annotations": annotations or {}},
                "spec": wanted,
            },
            **own,
            **of,
        },
    }


GPU = "nvidia.com/gpu"
MIG_1G = "nvidia.com/mig-1g.10gb"
MIG_2G = "nvidia.com/mig-2g.20gb"
