"""The lab's own files have none of the defects of seed 004's lab."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest
import yaml

from tools.lab import parts
from tools.lab.cluster import MANIFESTS, NODES

FILES = sorted(MANIFESTS.glob("*.yaml"))
#: Programs that each of the images has, or that the node brings along.
IN_THE_IMAGE = {"busybox:1.36": {"sleep"}}
GIVEN = {"default", "kube-system"}


def objects(kind: str = "") -> list[Any]:
    every = [one for path in FILES for one in yaml.safe_load_all(path.read_text())]
    return [one for one in every if not kind or one["kind"] == kind]


def specs() -> list[Any]:
    pods = [one["spec"] for one in objects("Pod")]
    return [*pods, *(one["spec"]["template"]["spec"] for one in objects("Deployment"))]


@pytest.mark.contract("S4-26")
def test_each_container_runs_a_program_of_its_image() -> None:
    for container in (one for spec in specs() for one in spec["containers"]):
        assert container["command"][0] in IN_THE_IMAGE[container["image"]]


@pytest.mark.contract("S4-26")
def test_each_namespace_exists_or_is_created() -> None:
    created = {one["metadata"]["name"] for one in objects("Namespace")}
    used = {one["metadata"].get("namespace", "default") for one in objects()}

    assert used <= created | GIVEN
    source = inspect.getsource(parts.monitoring)
    assert source.index("06-monitoring.yaml") < source.index("dashboard()")


@pytest.mark.contract("S4-26")
def test_each_label_is_there_before_a_pod_or_taint_names_it() -> None:
    """Part 2 waits for the labels; every selector after it names one of those."""
    there = {key for labels in parts.LABELS.values() for key in labels}
    named = {key for spec in specs() for key in spec.get("nodeSelector", {})}
    for spec in specs():
        affinity = spec.get("affinity", {}).get("nodeAffinity", {})
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        terms = [*required.get("nodeSelectorTerms", ())]
        terms += [
            one["preference"]
            for one in affinity.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        ]
        named |= {one["key"] for term in terms for one in term["matchExpressions"]}

    assert named <= there
    assert set(parts.LABELS) <= set(NODES)
    assert list(parts.PARTS)[1] == "2 labels"


def test_each_manifest_is_applied_by_a_part() -> None:
    tree = ast.parse(inspect.getsource(parts))
    texts = {one.value for one in ast.walk(tree) if isinstance(one, ast.Constant)}

    assert {path.name for path in FILES} <= texts
