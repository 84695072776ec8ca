"""``gpuctl replay`` on files: the same bytes, other bytes, and files that are no snapshot."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.config import Config, Maps
from scheduler.report.decisions.journal import Journal
from scheduler.report.decisions.state_capture import StateCapture
from scheduler.state.cache.cluster import Cluster
from scheduler.state.queue.scheduling_queue import SchedulingQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, take
from tests.builders import cluster, node, pod
from tests.unit.gpuctl.cli import CommandOutput, gpuctl

CONFIG = Config(maps=Maps(allow="all"))
NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


class World:
    """A cluster with pods that wait."""

    def __init__(self, state: Cluster, *waiting: Any) -> None:
        self.cluster, self.queue, self.generation = state, SchedulingQueue(), 1
        self.pipeline = CONFIG.pipeline()
        for one in waiting:
            state.upsert_pod(one)
            self.queue.add(one, 1.0)

    def state(self) -> ClusterSnapshot:
        return take(self.cluster, self.queue, Reservations(), self.generation, 2.0)


def written(tmp_path: Path, clock: Any = lambda: 2.0) -> Path:
    """A snapshot of a small world in a file."""
    world = World(
        cluster(
            node("a", gpus=4, with_gpu_indexes=True), node("b", gpus=2, taints=["x:NoSchedule"])
        ),
        pod("big", gpus=8),
        pod("fits", gpus=1),
        pod("m-0", map="0=a:9"),
    )
    camera = StateCapture(world, Journal(clock), CONFIG, "gpu-scheduler 1", clock, lambda: NOON)
    file = tmp_path / "s.json"
    file.write_bytes(msgspec.json.encode(camera.take()))
    return file


def changed(file: Path, change: Any) -> Path:
    """The file with something else in it."""
    body = json.loads(file.read_text())
    change(body)
    file.write_text(json.dumps(body))
    return file


def replay(file: Path, *options: str) -> CommandOutput:
    return gpuctl("replay", str(file), *options)


def test_nothing_differs_on_the_state_it_was_decided_on(tmp_path: Path) -> None:
    result = replay(written(tmp_path), "--check")

    assert result.status == 0
    assert (
        "gpu-scheduler 1, 2026-11-27T12:00:00.000000Z: 2 nodes, 3 pods, 3 of them wait"
        in result.out
    )
    assert "same    team/fits: on a (gpu:0)" in result.out
    assert "3 of 3 decisions are the same, byte for byte" in result.out


def test_one_pod_is_told_with_every_node(tmp_path: Path) -> None:
    file = written(tmp_path)

    refused, placed = replay(file, "--pod", "team/big"), replay(file, "--pod", "team/fits")

    assert "a     NodeResourcesFit  INSUFFICIENT  Insufficient nvidia.com/gpu" in refused.out
    assert "b     TaintToleration   TAINT" in refused.out
    assert "team/fits" not in refused.out
    assert "CUDA_VISIBLE_DEVICES  0" in placed.out
    assert "no other node fitted" in placed.out


def drop_taint(body: Any) -> None:
    body["state"]["nodes"][1]["taints"] = []


def swap_nodes(body: Any) -> None:
    body["state"]["nodes"].reverse()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(
            drop_taint,
            "now:  0/2 nodes are available: 2 Insufficient nvidia.com/gpu (need 8; best node has"
            " 4 free).",
            id="another-answer",
        ),
        pytest.param(
            swap_nodes, "they differ in fields that this line does not show", id="another-order"
        ),
    ],
)
def test_a_decision_that_differs_is_shown_and_fails_the_check(
    tmp_path: Path, change: Any, expected: str
) -> None:
    file = changed(written(tmp_path), change)

    result = replay(file, "--check")

    assert result.status == 1
    assert "DIFFERS team/big" in result.out
    assert expected in result.out
    assert replay(file).status == 0


def test_undecided_rejections_are_counted_and_decided_on_request(tmp_path: Path) -> None:
    ticks = iter(range(100))
    file = written(tmp_path, lambda: float(next(ticks)))

    result = replay(file, "--check")
    one = replay(file, "--check", "--pod", "team/m-0")

    assert "1 of 1 decisions are the same" in result.out
    assert "2 more wait and were not decided for the snapshot" in result.out
    assert one.status == 0
    assert "now     team/m-0: 0/2 nodes are available" in one.out


def test_the_json_holds_then_and_now(tmp_path: Path) -> None:
    result = replay(written(tmp_path), "-o", "json")

    rows = json.loads(result.out)
    assert [row["pod"] for row in rows] == ["team/big", "team/fits", "team/m-0"]
    assert all(row["then"] == row["now"] for row in rows)
    assert rows[1]["ranking"]["winner"]["node"] == "a"


@pytest.mark.parametrize(
    ("change", "result"),
    [
        pytest.param(
            lambda body: body.update(kind="Pod"),
            "is no snapshot of gpu-scheduler (gpu-scheduler.io/v1 Pod)",
            id="another-kind",
        ),
        pytest.param(
            lambda body: body.update(version=2),
            "is of version 2; this gpuctl reads version 1, use the one of gpu-scheduler 1",
            id="a-newer-version",
        ),
        pytest.param(
            lambda body: body["state"].update(nodes=5),
            "is no snapshot: Expected `array`, got `int` - at `$.state.nodes`",
            id="a-wrong-type",
        ),
    ],
)
def test_a_file_that_is_no_snapshot_is_one_line(tmp_path: Path, change: Any, result: str) -> None:
    file = changed(written(tmp_path), change)

    answer = replay(file)

    assert (answer.status, answer.out) == (1, "")
    assert answer.err == f"gpuctl replay: {file}: {result}\n"


def test_text_that_is_no_json_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert "is no snapshot: JSON is malformed" in gpuctl("replay", "-", stdin="nodes: []").err
    assert gpuctl("replay", str(tmp_path / "none")).err.endswith(
        "none: No such file or directory\n"
    )


def test_a_pod_that_does_not_wait_there_is_told_with_those_that_do(tmp_path: Path) -> None:
    result = replay(written(tmp_path), "--pod", "team/other")

    assert result.status == 1
    assert result.err.endswith(
        "pod team/other is not pending (pending pods: team/big, team/fits, team/m-0)\n"
    )
