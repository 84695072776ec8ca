"""The page about costs names every field and option, and its example is what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec
import pytest

from gpuctl.commands.cost import CostAnswer, cost
from gpuctl.cost.answer import read_price_file
from gpuctl.cost.rows import CostRow, table
from gpuctl.cost.show import show_cost
from scheduler.model.cost.share import slice_share
from scheduler.model.mig.gpu_models import GPU_MODELS
from scheduler.report.decisions.api_types import Cost, GpuBill, GpuShare
from tests.http.gpuctl.test_cost_command import COST
from tests.unit.gpuctl.test_narrow_terminals import printed

PAGE = (Path(__file__).parents[3] / "docs" / "cost.md").read_text(encoding="utf-8")
WIDTH = 90


@pytest.mark.parametrize("shape", [Cost, CostAnswer, CostRow, GpuBill, GpuShare])
def test_every_field_is_named(shape: type[msgspec.Struct]) -> None:
    named = set(re.findall(r"`([A-Za-z]+)`", PAGE))

    assert {field.encode_name for field in msgspec.structs.fields(shape)} - named == set()


def test_every_option_is_named() -> None:
    elsewhere = {"--kubeconfig", "--context", "--scheduler", "--scheduler-namespace", "--lease"}
    elsewhere |= {"--server", "--forward", "--all-namespaces"}
    spelled = {"--namespace": "-n NS", "--output": "`-o json`", "--selector": "-l LABELS"}
    options = {
        option
        for parameter in cost.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }

    assert {one for one in options if spelled.get(one, one) not in PAGE} == elsewhere


def test_example_is_what_the_command_prints() -> None:
    shown = re.search(r"^\$ gpuctl cost\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    rows = table(COST, "namespace")
    now = show_cost(COST, rows, "namespace", (), wide=False, with_use=False)

    assert shown is not None
    assert shown[1].splitlines() == printed(now, WIDTH)


@pytest.mark.parametrize("width", [40, 60, 80])
@pytest.mark.parametrize("by", ["namespace", "model", "node"])
def test_tables_fit_narrow_terminals(width: int, by: str) -> None:
    found = table(COST, by, used={"team/train": False}, with_pods=True)

    lines = printed(show_cost(COST, found, by, ("a note",), wide=True, with_use=True), width)

    assert max(map(len, lines)) <= width
    assert all(any(name in line for line in lines) for name in ("(stranded)", "held 7.71"))


def test_example_of_a_table_is_valid(tmp_path: Path) -> None:
    [shown] = re.findall(r"^```yaml\nprices:\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    file = tmp_path / "prices.yaml"
    file.write_text(shown)

    found = read_price_file(str(file))
    assert (found.currency, len(found.special)) == ("EUR", 1)


def test_shares_are_those_of_the_code() -> None:
    rows = re.findall(r"^\| `(\dg\.\d+gb)` \| .* \| (\d/\d) \|$", PAGE, re.MULTILINE)
    model = GPU_MODELS["A100-80"]

    assert len(rows) == 5
    assert [share for _, share in rows] == [str(slice_share(model, name)) for name, _ in rows]
