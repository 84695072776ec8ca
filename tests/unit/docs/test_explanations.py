"""The page about explanations names every path, field, option and setting that there is."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path

import click
import msgspec
import pytest

from gpuctl.commands.replay import replay
from gpuctl.commands.snapshot import snapshot
from gpuctl.commands.why import why
from scheduler import config
from scheduler.decide.explain import Meaning, Note, Outcome, Refusal
from scheduler.decide.remedy.edit import Edit, EditKind
from scheduler.decide.remedy.outlook import CanStart, Closest, Holder, Outlook
from scheduler.decide.remedy.search import Remedy
from scheduler.decide.score_breakdown import NodeScore, Ranking
from scheduler.model import limits
from scheduler.report.decisions import api, guard, journal, journal_file, state_capture
from scheduler.report.decisions.api_types import (
    Admitted,
    Ahead,
    Decided,
    Leader,
    PodAnswer,
    Tier,
    Waiting,
)

PAGE = (Path(__file__).parents[3] / "docs" / "explanations.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "shape",
    [
        Admitted,
        Ahead,
        Closest,
        Decided,
        Edit,
        Holder,
        Leader,
        Meaning,
        Note,
        Outcome,
        Outlook,
        PodAnswer,
        Ranking,
        Refusal,
        Remedy,
        NodeScore,
        Tier,
        Waiting,
    ],
    ids=lambda shape: shape.__name__,
)
def test_every_field_is_named(shape: type[msgspec.Struct]) -> None:
    told = set(re.findall(r"`([A-Za-z]+)`", PAGE))

    assert {field.encode_name for field in msgspec.structs.fields(shape)} - told == set()


@pytest.mark.parametrize("words", [CanStart, EditKind], ids=lambda words: words.__name__)
def test_every_word_is_named(words: type[Enum]) -> None:
    assert all(f"`{word.value}`" in PAGE for word in words)


def test_every_path_is_named() -> None:
    for path in guard.PATHS.split():
        assert f"GET {path}" in PAGE


@pytest.mark.parametrize("command", [why, snapshot, replay], ids=lambda command: command.name)
def test_every_option_is_named(command: click.Command) -> None:
    long = {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("--")
    }
    spelled = {"--namespace": "-n NS", "--output": "-o ", "--forward": "--no-forward"}

    assert {option for option in long if spelled.get(option, option) not in PAGE} == set()


def test_the_bounds_are_the_ones_in_the_code() -> None:
    bounds = (
        f"last {config.JournalSettings().entries} decisions",
        f"{journal.ROWS_MAX:,} nodes",
        f"last {state_capture.DECISIONS_MAX} decisions",
        f"at most {limits.DECISIONS_MAX})",
        f"{api.LATEST_DEFAULT} by default, at most",
        f"`?limit=`, at most {limits.DECISIONS_OF_A_POD_MAX}",
        f"{api.WAIT_DEFAULT_S:g} by default), and answers",
        f"at most {journal_file.ROWS_MAX} refusals per line",
        f"{journal_file.BYTES_MAX >> 20} MiB",
        config.Config().decisions_address,
    )

    assert [bound for bound in bounds if bound not in " ".join(PAGE.split())] == []
