"""The page about ``gpuctl whatif`` names every field, option and code that there is."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec
import pytest

from gpuctl.commands.whatif import whatif
from gpuctl.output.whatif import render
from gpuctl.whatif import eviction
from gpuctl.whatif.result import Added, Move, PodResult, Situation, WhatIf
from tests.unit.gpuctl.test_narrow_terminals import printed
from tests.unit.gpuctl.whatif.test_answer import drained_with_new_nodes

PAGE = (Path(__file__).parents[3] / "docs" / "whatif.md").read_text(encoding="utf-8")
WIDTH = 72


@pytest.mark.parametrize(
    "shape", [Added, Move, PodResult, Situation, WhatIf], ids=lambda shape: shape.__name__
)
def test_every_field_is_named(shape: type[msgspec.Struct]) -> None:
    named = set(re.findall(r"`([A-Za-z]+)`", PAGE))

    assert {field.encode_name for field in msgspec.structs.fields(shape)} - named == set()


def test_every_option_is_named() -> None:
    elsewhere = {"--kubeconfig", "--context", "--scheduler", "--scheduler-namespace", "--lease"}
    spelled = {"--namespace": "`-n NS`", "--output": "`-o FORMAT`", "--forward": "`--no-forward`"}
    options = {
        option
        for parameter in whatif.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }

    assert {one for one in options if spelled.get(one, one) not in PAGE} == elsewhere


def test_every_code_of_a_pod_that_stays_is_named() -> None:
    codes = (eviction.NO_CONTROLLER, eviction.BUDGET, eviction.UNREAD)

    assert [code for code in codes if f"`{code}`" not in PAGE] == []


def test_example_is_what_the_command_prints() -> None:
    shown = re.search(r"^\$ gpuctl whatif.*?\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    assert shown is not None
    assert shown[1].splitlines() == printed(render(drained_with_new_nodes()), WIDTH)
