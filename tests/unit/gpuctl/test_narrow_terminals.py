"""Tables and drawings in a narrow terminal: names and GPUs stay whole."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from gpuctl.output import gpu_diagram, text
from gpuctl.output.columns import Columns
from gpuctl.output.gpu_rows import rows_of
from gpuctl.output.table import headed
from scheduler.decide.explain import Outcome, Refusal
from tests.builders import cluster, dynamic, node, pod

WHY = "Insufficient nvidia.com/gpu (need 8; best node has 4 free)"


def printed(what: RenderableType, width: int) -> list[str]:
    """The lines of a terminal of this width."""
    console = Console(width=width, highlight=False, force_terminal=False)
    with console.capture() as captured:
        console.print(what, crop=False)
    return [line.rstrip() for line in captured.get().splitlines()]


def answers() -> Columns:
    table = headed("NODE", "STAGE", "CODE", "WHY")
    table.add_row("h100-node-12.zone-a", "NodeResourcesFit", "INSUFFICIENT", WHY)
    return table


@pytest.mark.parametrize(
    ("width", "head"),
    [
        pytest.param(120, "NODE                 STAGE             CODE          WHY", id="wide"),
        pytest.param(60, "NODE                 CODE          WHY", id="sixty"),
        pytest.param(40, "NODE  h100-node-12.zone-a", id="one-block-a-row"),
    ],
)
def test_columns_are_dropped_before_a_name_is_split(width: int, head: str) -> None:
    lines = printed(answers(), width)

    assert lines[0] == head
    assert any("h100-node-12.zone-a" in line for line in lines)
    assert max(map(len, lines)) <= width


def test_name_stands_beside_the_first_line_of_its_prose() -> None:
    lines = printed(answers(), 60)

    assert lines[1].startswith("h100-node-12.zone-a  INSUFFICIENT  Insufficient")
    assert lines[2].startswith(" " * 35)


def test_prose_of_several_lines_stays_in_its_column() -> None:
    table = headed("NODE", "WHY")
    table.add_row("n1", "one\ntwo")

    assert printed(table, 80) == ["NODE  WHY", "n1    one", "      two"]


def test_name_longer_than_the_terminal_stays_whole() -> None:
    table = headed("NODE", "WHY")
    table.add_row("n" * 70, WHY)

    assert printed(table, 60)[0] == "NODE  " + "n" * 70


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
@pytest.mark.parametrize("length", [8, 24, 45, 63])
def test_name_within_prose_stays_whole(width: int, length: int) -> None:
    held, pod = "1 x 3g.40gb, 2 x 2g.20gb, 4 x 1g.10gb", "p" * length
    table = Columns("NODE", "HELD", "BY", prose=("HELD", "BY"))
    table.add_row("h100-1", held, f"{pod} 3, train 1; failed: GPU 7")

    lines = printed(table, width)

    assert any(pod in line for line in lines)
    assert max(map(len, lines)) <= max(width, len("NODE  ") + length)


def test_list_without_spaces_is_split() -> None:
    table = Columns("NODE", "DEVICES", prose=("DEVICES",))
    table.add_row("n1", ",".join(map(str, range(30))))

    lines = printed(table, 40)

    assert [line[:4].strip() for line in lines] == ["NODE", "n1", "", ""]
    assert max(map(len, lines)) <= 40


@given(
    name=st.text("ab-", min_size=1, max_size=63).filter(lambda name: name == name.strip()),
    width=st.integers(20, 100),
)
def test_every_name_is_on_one_line_at_every_width(name: str, width: int) -> None:
    outcome = Outcome(
        message="m",
        total=1,
        refusals=(Refusal(node=name, stage="NodeResourcesFit", code="INSUFFICIENT", text=WHY),),
    )

    lines = printed(text.refusals(outcome), width)

    assert any(name in line for line in lines)
    words = " ".join(" ".join(lines).split())
    assert all(word in words for word in WHY.split() if len(word) < 14)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_gpu_is_drawn_whole(width: int) -> None:
    made = cluster(
        dynamic("n"),
        node("m", gpus=16),
        pod("p", mig={"2g.20gb": 1}, node="n", devices="2g.20gb@0/2"),
    )

    lines = printed(gpu_diagram.text(rows_of(made)), width)

    drawn = [line for line in lines if "[" in line]
    assert all(re.fullmatch(r" *(\[[^\[\]]*\])+", line) for line in drawn)
    assert max(map(len, drawn)) <= width
