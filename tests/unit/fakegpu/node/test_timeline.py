"""Utilisation by a script that a pod brings: what is read, and what shows when."""

from __future__ import annotations

import json

import pytest

from fakegpu import pod_decode
from fakegpu.node.utilization import as_of, parse_timeline
from fakegpu.topology.node_topology import Utilization
from tests.unit.fakegpu.nodes import GPU, use

SCRIPT = "0 for 5m, 80-100 for 1h, 20 for 30s"
STARTED = 1_000.0


@pytest.mark.parametrize(
    ("script", "after_s", "wanted", "changes_after_s"),
    [
        pytest.param(SCRIPT, 0, (0, 0), 300, id="the-first-step"),
        pytest.param(SCRIPT, -9, (0, 0), 300, id="clocks-that-differ"),
        pytest.param(SCRIPT, 300, (80, 100), 3900, id="the-next-at-its-second"),
        pytest.param(SCRIPT, 3930, (20, 20), None, id="the-last-one-stays"),
        pytest.param(SCRIPT + ", repeat", 3930, (0, 0), 4230, id="again"),
        pytest.param(SCRIPT + ", repeat", 2 * 3930 + 301, (80, 100), 2 * 3930 + 3900, id="later"),
    ],
)
def test_what_a_pod_shows_by_its_script_and_until_when(
    script: str, after_s: float, wanted: tuple[int, int], changes_after_s: float | None
) -> None:
    pod = use("p", timeline=parse_timeline(script), started=STARTED)

    (shown,), changes_at = as_of([pod], STARTED + after_s)

    assert shown.load == Utilization(min=wanted[0], max=wanted[1])
    assert changes_at == (None if changes_after_s is None else STARTED + changes_after_s)


def test_first_change_of_several_pods_counts_and_others_are_unchanged() -> None:
    plain = use("plain")
    short = use("short", timeline=parse_timeline("1 for 10s, 2 for 1s"), started=STARTED)
    long = use("long", timeline=parse_timeline("1 for 1h, 2 for 1s"), started=STARTED)
    waits = use("waits", timeline=parse_timeline("1 for 1s"), started=None)

    shown, changes_at = as_of([plain, short, long, waits], STARTED)

    assert changes_at == STARTED + 10
    assert (shown[0], shown[3]) == (plain, waits)


@pytest.mark.parametrize(
    "text", ["80", "80 for", "80 for 5", "80 for 0s", "x for 5m", "80 for 5m,", "repeat", ", "]
)
def test_a_script_that_cannot_be_read_is_none(text: str) -> None:
    assert parse_timeline(text) is None


def test_a_script_is_an_annotation_and_runs_from_the_pods_start() -> None:
    meta = {"name": "p", "namespace": "team", "uid": "u"}
    container = {"name": "c", "resources": {"limits": {GPU: "1"}}}
    body = {
        "metadata": {**meta, "annotations": {"gpu-scheduler.io/fake-utilization": SCRIPT}},
        "spec": {"nodeName": "n", "containers": [container]},
        "status": {"phase": "Running", "startTime": "1970-01-01T00:16:40Z"},
    }

    _, found = pod_decode.pod("runai-reservation")(json.dumps(body).encode())

    assert found is not None
    assert found.use.timeline == parse_timeline(SCRIPT)
    assert found.use.started == STARTED
