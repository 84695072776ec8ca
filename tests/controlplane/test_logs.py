"""The logs on a new cluster: a healthy start without warnings, then one line per decision."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Watcher, controlled, node_of, pod
from tools.controlplane import ControlPlane, wait_until
from tools.product import Product

#: The keys of the line of a decision, in docs/logs.md.
KEYS: Final = {"result", "pod", "node", "devices", "reason", "decision", "took_ms"}
_TEXT: Final = re.compile(r"(?P<timestamp>\S+) \[(?P<level>[a-z]+) *\] (?P<rest>.*)")
_FACT: Final = re.compile(r" ([a-z_]+)=('(?:[^'\\]|\\.)*'|\"[^\"]*\"|\S*)")


@pytest.fixture(scope="module")
def cp(untouched: ControlPlane) -> ControlPlane:
    """Nothing is installed yet: the API server serves the CRDs while the scheduler starts."""
    return untouched


def from_json(log: str) -> list[Any]:
    return [json.loads(line) for line in log.splitlines()]


def from_text(log: str) -> list[Any]:
    """The lines with their keys; of those with a traceback the first line."""
    found = []
    for line in filter(None, map(_TEXT.fullmatch, log.splitlines())):
        facts = {key: value.strip("'\"") for key, value in _FACT.findall(line["rest"])}
        found.append({"level": line["level"], "event": line["rest"], **facts})
    return found


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("as_json", "read"),
    [pytest.param(False, from_text, id="text"), pytest.param(True, from_json, id="json")],
)
def test_healthy_start_has_no_warning_and_decisions_one_line(
    cp: ControlPlane,
    kwok_node: MakeNode,
    namespace: str,
    tmp_path: Path,
    as_json: bool,
    read: Callable[[str], list[Any]],
) -> None:
    kwok_node("logged", gpus=2)
    here = Watcher(cp, namespace)
    with Product(cp, tmp_path, log_json=as_json) as product:
        start = [*read(product.log("scheduler")), *read(product.log("webhook"))]
        here.create(pod("big", limits={"nvidia.com/gpu": "9"}))
        here.wait_explained("big", "Insufficient nvidia.com/gpu")
        here.create(controlled("Deployment", "web", replicas=2, limits={"nvidia.com/gpu": "1"}))
        pods = here.wait_bound(2)

        def placed_lines() -> int:
            decided = _of_decisions(read(product.log("scheduler")), namespace)
            return sum(one["result"] == "placed" for one in decided)

        wait_until(lambda: placed_lines() >= 2, what="the lines of two placements")
        decided = _of_decisions(read(product.log("scheduler")), namespace)
        admitted = [
            one
            for one in read(product.log("webhook"))
            if one["level"] == "info" and one.get("pod", "").startswith(f"{namespace}/")
        ]

    assert {one["level"] for one in start} <= {"info", "detail"}
    assert "caches synced" in " ".join(one["event"] for one in start)
    assert all(one.keys() >= KEYS for one in decided)
    ids = [one["decision"] for one in decided]
    assert len(set(ids)) == len(ids)
    placed = {one["pod"]: one for one in decided if one["result"] == "placed"}
    assert {key.partition("/")[2] for key in placed} == {
        item["metadata"]["name"] for item in pods if node_of(item)
    }
    assert {one["node"] for one in placed.values()} == {"logged"}
    waits = {one["pod"] for one in decided if one["result"] == "waits"}
    assert waits == {f"{namespace}/big"}
    names = sorted(one["pod"] for one in admitted)
    assert len(names) == 3
    assert names[0] == f"{namespace}/big"
    assert re.fullmatch(rf"{namespace}/web-[0-9a-z]+-\*", names[1])


def _of_decisions(lines: list[Any], namespace: str) -> list[Any]:
    return [
        one for one in lines if "decision" in one and one.get("pod", "").startswith(f"{namespace}/")
    ]
