"""The page about capacity names every field, column and option that there is."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec
import pytest

from gpuctl.capacity import CapacityAnswer
from gpuctl.commands.free import free
from gpuctl.commands.top import SORTS, top
from gpuctl.output.free import FreeRow
from gpuctl.output.top import NamespaceRow, NodeRow, PodRow
from scheduler.report.decisions import capacity
from scheduler.report.decisions.api_types import Capacity
from scheduler.state.capacity.node_devices import DRAWN_MAX, DeviceAmount, Holder, NodeDevices
from scheduler.state.capacity.summary import (
    ModelCapacity,
    NamespaceCapacity,
    QuotaUse,
    WaitingPod,
)

PAGE = (Path(__file__).parents[3] / "docs" / "capacity.md").read_text(encoding="utf-8")
SHAPES: list[type[msgspec.Struct]] = [
    *(Capacity, CapacityAnswer, DeviceAmount, FreeRow, Holder, ModelCapacity),
    *(NamespaceCapacity, NamespaceRow, NodeDevices, NodeRow, PodRow, QuotaUse, WaitingPod),
]
#: Not encoded: the sums of the namespaces have it.
INNER = {"byNamespace"}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_every_field_is_named(shape: type[msgspec.Struct]) -> None:
    named = set(re.findall(r"`([A-Za-z]+)`", PAGE))

    fields = {field.encode_name for field in msgspec.structs.fields(shape)}
    assert fields - named - INNER == set()


@pytest.mark.parametrize("command", [top, free], ids=lambda command: command.name)
def test_every_option_is_named(command: click.Command) -> None:
    spelled = {
        "--namespace": "`-n NS`",
        "--all-namespaces": "`-A`",
        "--selector": "`-l LABELS`",
        "--output": "`-o FORMAT`",
        "--forward": "`--server URL`, `--no-forward`",
        "--scheduler-namespace": "",
        "--lease": "",
        "--scheduler": "`--scheduler NAME`",
    }
    options = {
        option
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }

    assert {option for option in options if spelled.get(option, option) not in PAGE} == set()


def test_the_bounds_are_the_ones_in_the_code() -> None:
    bounds = (
        f"at most {capacity.NODES_MAX:,} nodes and {capacity.WAITING_MAX:,} waiting pods",
        f"in parts of about {capacity.PART} pods",
        f"at most {DRAWN_MAX})",
        "--sort " + r"\|".join(SORTS),
    )

    assert [bound for bound in bounds if bound not in " ".join(PAGE.split())] == []
