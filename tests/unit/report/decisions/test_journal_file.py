"""The journal's file: every decision once, in order, within bounds, and never in the way."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from scheduler import config
from scheduler.report.decisions.journal import Journal
from scheduler.report.decisions.journal_file import BYTES_MAX, JournalFile
from scheduler.report.decisions.renderer import DecisionRenderer
from tests.builders import pod
from tests.unit.report.decisions.test_journal import JournalWorld

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


class Writing:
    """A journal, its file, and what stands in it."""

    def __init__(self, path: Path, entries: int = 100, bytes_max: int = BYTES_MAX) -> None:
        self.path = path
        self.scene = JournalWorld(entries=entries)
        self.scene.journal = Journal(self.scene.clock, "run", entries)
        retelling = DecisionRenderer(self.scene.clock, lambda: NOON)
        self.file = JournalFile(self.scene.journal, retelling, path, bytes_max)

    def decide(self, *names: str) -> None:
        for name in names:
            self.scene.decide(pod(name, gpus=1))

    def lines(self, suffix: str = "") -> list[Any]:
        file = self.path.with_name(self.path.name + suffix)
        return [json.loads(line) for line in file.read_text().splitlines()]


async def test_each_decision_is_one_line_and_written_once(tmp_path: Path) -> None:
    writing = Writing(tmp_path / "j")
    writing.decide("a", "b")
    await writing.file.catch_up()
    await writing.file.catch_up()
    writing.decide("c")
    await writing.file.catch_up()

    assert [line["pod"] for line in writing.lines()] == ["a", "b", "c"]
    first = writing.lines()[0]
    assert first["id"] == "run-1"
    assert first["time"] == "2026-11-27T12:00:00.000000Z"
    assert first["outcome"] == {"node": "n1", "devices": "gpu x 1"}


async def test_a_file_that_is_there_already_is_continued(tmp_path: Path) -> None:
    (tmp_path / "j").write_text('{"pod":"old"}\n')
    writing = Writing(tmp_path / "j")
    writing.decide("a")
    await writing.file.catch_up()

    assert [line["pod"] for line in writing.lines()] == ["old", "a"]


async def test_overwritten_records_are_counted(tmp_path: Path) -> None:
    writing = Writing(tmp_path / "j", entries=2)
    writing.decide("a", "b", "c", "d", "e")
    await writing.file.catch_up()

    lost, *rest = writing.lines()
    assert lost == {"lost": 3}
    assert [line["pod"] for line in rest] == ["d", "e"]


async def test_full_file_rotates_and_one_old_file_is_kept(tmp_path: Path) -> None:
    writing = Writing(tmp_path / "j", bytes_max=1500)
    for number in range(40):
        writing.decide(f"p{number}")
        await writing.file.catch_up()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["j", "j.1"]
    assert all(path.stat().st_size <= 1500 for path in tmp_path.iterdir())
    told = [line["pod"] for line in (*writing.lines(".1"), *writing.lines())]
    assert told == [f"p{number}" for number in range(40 - len(told), 40)]


async def test_write_failure_is_logged_once_and_counted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    writing = Writing(tmp_path / "missing" / "j")
    for name in ("a", "b"):
        writing.decide(name)
        await writing.file.catch_up()
    said = capfd.readouterr()
    (tmp_path / "missing").mkdir()
    writing.decide("c")
    await writing.file.catch_up()

    assert (said.out + said.err).count("journal file not written") == 1
    lost, line = writing.lines()
    assert (lost, line["pod"]) == ({"lost": 2}, "c")


async def test_the_last_decisions_are_written_at_the_end(tmp_path: Path) -> None:
    writing = Writing(tmp_path / "j")
    running = asyncio.create_task(writing.file.run())
    await asyncio.sleep(0)
    writing.decide("a")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert [line["pod"] for line in writing.lines()] == ["a"]


HEAD = "apiVersion: gpu-scheduler.io/v1\nkind: GpuSchedulerConfiguration\n"


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:0", "127.0.0.1:8090", "localhost:65535", '"[::1]:8090"', '""'],
)
def test_the_decisions_api_listens_on_this_machine_only_or_not_at_all(address: str) -> None:
    read = config.parse(f"{HEAD}decisionsAddress: {address}".encode())

    assert read.decisions_address == address.strip('"')


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("decisionsAddress: 0.0.0.0:8090", "use kubectl port-forward"),
        ("decisionsAddress: ':8090'", "use kubectl port-forward"),
        ("decisionsAddress: 127.0.0.1", "must be a loopback address"),
        ("decisionsAddress: 127.0.0.1:70000", "must be a loopback address"),
        ("decisionsAddress: localhost.example:80", "must be a loopback address"),
        ("journal: {entries: 0}", "$.journal.entries"),
        ("journal: {entries: 100001}", "$.journal.entries"),
        ("journal: {file: x}", "unknown field `file` - at `$.journal`"),
    ],
)
def test_impossible_setting_is_refused_with_its_path(line: str, said: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        config.parse(f"{HEAD}{line}".encode())

    assert said in str(caught.value)
