"""``gpuctl defrag`` on snapshots: the plan, its cost, and why there is none."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.config import Config
from scheduler.report.decisions.journal import Journal
from scheduler.report.decisions.state_capture import StateCapture
from tests.builders import cluster, dynamic, node, pod
from tests.unit.gpuctl.cli import CommandOutput, gpuctl
from tests.unit.gpuctl.test_replay import World

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)
SMALL = "Deployment/small@1"


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


def test_the_pod_with_the_fewest_slices_moves(tmp_path: Path) -> None:
    result = defrag(fragmented(tmp_path), "-o", "json")

    found = json.loads(result.out)
    assert (found["node"], found["devices"], found["restarts"]) == ("a", "3g.40gb@0/4", 1)
    (move,) = found["moves"]
    assert (move["pod"], move["source"]) == ("team/high", "a 1g.10gb@0/4")
    assert move["gpuMinutes"] > 0


def test_a_plan_names_its_cost_and_the_command_that_carries_it_out(tmp_path: Path) -> None:
    result = defrag(fragmented(tmp_path))

    assert result.status == 0
    assert "team/big: 3g.40gb fits on a, GPU 0, from slice 4, after 1 restart:" in result.out
    assert "team/high  a 1g.10gb@0/4" in result.out
    assert "GPU-minutes of work are lost" in result.out
    assert "gpuctl defrag team/big --moves 1 --execute" in result.out


def test_fitting_request_needs_no_relocation(tmp_path: Path) -> None:
    file = snapshot(tmp_path, dynamic("a"), waiting=pod("big", mig={"3g.40gb": 1}))

    result = defrag(file)

    assert result.status == 0
    assert "fits already: 3g.40gb on a" in result.out


@pytest.mark.parametrize(
    ("owner", "scheduler"),
    [
        pytest.param("", "gpu-scheduler", id="no controller recreates it"),
        pytest.param("Job/j", "gpu-scheduler", id="a job would count it as a failure"),
        pytest.param(SMALL, "default-scheduler", id="another scheduler's"),
    ],
)
def test_pod_that_would_not_return_is_not_relocated(
    tmp_path: Path, owner: str, scheduler: str
) -> None:
    result = defrag(fragmented(tmp_path, owner=owner, scheduler=scheduler))

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
        "gpuctl defrag: no plan for team/big with at most 1 restart: it needs 4"
        " contiguous slices, 0 are free on 1 GPUs"
    )


@pytest.mark.parametrize(
    ("things", "wish", "line"),
    [
        pytest.param(
            (node("a", mig={"3g.40gb": 1}),), {"3g.40gb": 1}, "dynamic MIG", id="fixed slices"
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
