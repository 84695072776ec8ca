"""``gpuctl defrag`` on snapshots: the plan, its cost, and why there is none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.config import Config
from scheduler.model.well_known import RESTORE
from scheduler.report.decisions.journal import Journal
from scheduler.report.decisions.state_capture import StateCapture
from tests.builders import cluster, dynamic, node, pod
from tests.dra import device_json, resource_slice
from tests.unit.gpuctl.cli import CommandOutput, gpuctl
from tests.unit.gpuctl.test_replay import World

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
SMALL = "Deployment/small@1"
OF_A_DRIVER = resource_slice(
    "a",
    device_json("part", attributes={"profile": {"string": "3g.40gb"}}),
    driver="gpu.nvidia.com",
)


def snapshot(tmp_path: Path, *things: Any, waiting: Any) -> Path:
    """A snapshot in a file."""
    world = World(cluster(*things), waiting)
    camera = StateCapture(world, Journal(lambda: 2.0), Config(), "p", lambda: 2.0, lambda: NOON)
    file = tmp_path / "s.json"
    file.write_bytes(msgspec.json.encode(camera.take()))
    return file


def holder(name: str, devices: str, node_name: str = "a", **fields: Any) -> Any:
    """A pod of a Deployment that holds one instance."""
    profile = devices.partition("@")[0]
    fields = {"owner": SMALL, **fields}
    return pod(name, mig={profile: 1}, node=node_name, devices=devices, **fields)


def defrag(file: Path, *options: str) -> CommandOutput:
    return gpuctl("defrag", "team/big", "--from", str(file), *options)


def fragmented(tmp_path: Path, **fields: Any) -> Path:
    """Two GPUs with eight free slices, and nowhere four in one piece."""
    return snapshot(
        tmp_path,
        dynamic("a"),
        dynamic("b"),
        holder("low", "2g.20gb@0/0", **fields),
        holder("high", "1g.10gb@0/4", **fields),
        holder("left", "2g.20gb@0/2", "b", **fields),
        holder("right", "2g.20gb@0/4", "b", **fields),
        waiting=pod("big", mig={"3g.40gb": 1}),
    )


def test_plan_with_the_least_loss_is_printed_as_json(tmp_path: Path) -> None:
    result = defrag(fragmented(tmp_path), "-o", "json")

    found = json.loads(result.out)
    assert (found["node"], found["devices"], found["restarts"]) == ("b", "3g.40gb@0/4", 1)
    assert (found["certain"], found["gain"]) == (True, 1.78)
    (move,) = found["moves"]
    assert (move["pod"], move["source"]) == ("team/right", "b 2g.20gb@0/4")
    assert move["gpuMinutes"] > 0


def test_a_plan_names_its_cost_and_the_command_that_carries_it_out(tmp_path: Path) -> None:
    result = defrag(fragmented(tmp_path))

    assert result.status == 0
    assert "team/big: 3g.40gb fits on b, GPU 0, from slice 4, after 1 restart:" in result.out
    assert "team/right  b 2g.20gb@0/4" in result.out
    assert "GPU-minutes of work are lost" in result.out
    assert "memory slices (layout cost of all GPUs)" in result.out
    assert "gpuctl defrag team/big --moves 1 --execute" in result.out


def chain(tmp_path: Path) -> Path:
    """A 4g waits for the place of a 3g, which waits for the place of a 1g."""
    return snapshot(
        tmp_path,
        dynamic("a"),
        dynamic("b"),
        *(holder("x", "3g.40gb@0/0"), holder("i", "1g.20gb@0/6")),
        *(holder("j", "1g.10gb@0/1", "b"), holder("k", "2g.20gb@0/2", "b")),
        holder("y", "1g.10gb@0/6", "b"),
        waiting=pod("big", mig={"4g.40gb": 1}),
    )


def test_two_restarts_are_looked_for_without_an_option(tmp_path: Path) -> None:
    result = defrag(chain(tmp_path), "-o", "json")

    found = json.loads(result.out)
    assert (found["restarts"], found["certain"]) == (2, True)
    assert [move["pod"] for move in found["moves"]] == ["team/y", "team/x"]


def test_uncertain_plan_says_what_may_happen(tmp_path: Path) -> None:
    """Before the 2g at slice 2 has ended its new pod gets slice 0, which the 4g needs."""
    big = pod("big", mig={"4g.40gb": 1})
    alone = snapshot(tmp_path, dynamic("a"), holder("x", "2g.20gb@0/2"), waiting=big)

    assert "not certain: team/big must be placed before" in defrag(alone).out
    assert "not certain" not in defrag(chain(tmp_path)).out


def test_fitting_request_needs_no_relocation(tmp_path: Path) -> None:
    file = snapshot(tmp_path, dynamic("a"), waiting=pod("big", mig={"3g.40gb": 1}))

    result = defrag(file)

    assert result.status == 0
    assert "fits already: 3g.40gb on a" in result.out


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"owner": ""}, id="no controller recreates it"),
        pytest.param({"owner": "Job/j"}, id="a job would count it as a failure"),
        pytest.param({"scheduler": "default-scheduler"}, id="another scheduler's"),
        pytest.param({"annotations": {RESTORE: "never"}}, id="its author opted out"),
        pytest.param({"labels": {"kueue.x-k8s.io/queue-name": "q"}}, id="Kueue starts it"),
        pytest.param({"deleting": True}, id="terminating already"),
    ],
)
def test_pod_that_would_not_return_is_not_relocated(tmp_path: Path, fields: Any) -> None:
    result = defrag(fragmented(tmp_path, **fields))

    assert result.status == 2
    assert "no plan for team/big" in result.err


def test_no_plan_says_why_with_numbers(tmp_path: Path) -> None:
    file = snapshot(
        tmp_path,
        dynamic("a"),
        holder("low", "3g.40gb@0/0"),
        holder("high", "3g.40gb@0/4"),
        waiting=pod("big", mig={"3g.40gb": 1}),
    )

    result = defrag(file)

    assert result.status == 2
    assert result.err.strip() == (
        "gpuctl defrag: no plan for team/big with at most 2 restarts: it needs 4"
        " contiguous slices, 0 are free on 1 GPUs"
    )


@pytest.mark.parametrize(
    ("things", "wish", "line"),
    [
        pytest.param(
            (node("a", mig={"3g.40gb": 1}),), {"3g.40gb": 1}, "dynamic MIG", id="fixed slices"
        ),
        pytest.param(
            (node("a"), OF_A_DRIVER), {"3g.40gb": 1}, "partitions of a DRA driver", id="dra"
        ),
        pytest.param((dynamic("a"),), {"3g.40gb": 2}, "exactly one MIG instance", id="two at once"),
        pytest.param((dynamic("a"),), {"9g.90gb": 1}, "has the profile", id="unknown profile"),
    ],
)
def test_what_cannot_be_planned_says_so(
    tmp_path: Path, things: tuple[Any, ...], wish: dict[str, int], line: str
) -> None:
    result = defrag(snapshot(tmp_path, *things, waiting=pod("big", mig=wish)))

    assert result.status == 2
    assert line in result.err


def test_a_pod_that_does_not_wait_is_a_mistake(tmp_path: Path) -> None:
    file = snapshot(tmp_path, dynamic("a"), waiting=pod("other", mig={"3g.40gb": 1}))

    result = defrag(file)

    assert result.status == 1
    assert "pod team/big is not pending (pending pods: team/other)" in result.err


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(["--dry-run"], id="a dry run"),
        pytest.param(["--from", "s.json"], id="a file"),
    ],
)
def test_a_dry_run_and_a_file_execute_nothing(other: list[str]) -> None:
    result = gpuctl("defrag", "team/big", "--execute", *other)

    assert result.status == 1
    assert "exclude each other" in result.err
