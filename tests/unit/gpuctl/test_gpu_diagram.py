"""`gpuctl simulate -o picture` and `-o svg`: every GPU, slice by slice where places are known."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest

from gpuctl.output.gpu_diagram import SLICE_COLUMNS, svg
from gpuctl.output.gpu_rows import Cell, GpuRow, Use, rows_of
from tests.builders import cluster, cut, dynamic, node, pod
from tests.unit.gpuctl.cli import ROOT, gpuctl

SVG = "{http://www.w3.org/2000/svg}"
TO_ORDER = """
apiVersion: v1
kind: Node
metadata:
  name: cut
  labels:
    gpu-scheduler.io/mig-dynamic: "true"
    nvidia.com/gpu.product: NVIDIA-A100-SXM4-80GB
    nvidia.com/gpu.count: "1"
---
apiVersion: v1
kind: Pod
metadata: {name: a-very-long-name-for-a-pod}
spec:
  schedulerName: gpu-scheduler
  containers: [{name: c, image: i, resources: {limits: {nvidia.com/mig-1g.10gb: 1}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: wide}
spec:
  schedulerName: gpu-scheduler
  containers: [{name: c, image: i, resources: {limits: {nvidia.com/mig-3g.40gb: 1}}}]
"""


def test_an_instance_is_drawn_at_its_slices_and_the_rest_is_free() -> None:
    (strip,) = rows_of(
        cluster(
            dynamic("n"),
            pod("p", mig={"2g.20gb": 1}, node="n", devices="2g.20gb@0/2"),
        )
    )

    assert (strip.title, strip.width, strip.is_placed) == ("GPU 0, A100-80", 8, True)
    assert Cell("2g.20gb", 2, 2, Use.HELD, "p") in strip.cells
    assert [cell.start for cell in strip.cells if cell.use is Use.FREE] == [0, 1, 4, 5, 6, 7]


def test_unheld_instance_is_idle() -> None:
    (strip,) = rows_of(cluster(dynamic("n"), cut("n", "3g.40gb@0/4")))

    assert Cell("3g.40gb", 4, 4, Use.IDLE) in strip.cells


def test_unreadable_gpu_is_drawn_as_blocked() -> None:
    made = cluster(
        dynamic("n"),
        pod("p", mig={"2g.20gb": 1}, node="n", devices="nonsense"),
    )

    (strip,) = rows_of(made)

    assert strip.cells == (Cell("gpu", 0, 8, Use.BLOCKED),)


def test_where_the_kubelet_picks_holders_are_listed_without_a_place() -> None:
    found = rows_of(
        cluster(
            node("n", mig={"1g.10gb": 1, "2g.20gb": 2}),
            pod("b", mig={"2g.20gb": 1}, node="n"),
        )
    )

    assert [(one.title, one.is_placed) for one in found] == [
        ("1 x 1g.10gb, the kubelet picks which", False),
        ("2 x 2g.20gb, the kubelet picks which", False),
    ]
    assert [(cell.use, cell.holder) for cell in found[1].cells] == [(Use.HELD, "b"), (Use.FREE, "")]


def test_numbered_gpus_show_their_holders() -> None:
    (strip,) = rows_of(
        cluster(
            node("n", gpus=3, with_gpu_indexes=True),
            pod("p", gpus=1, node="n", devices="gpu:1"),
        )
    )

    assert [(cell.name, cell.holder) for cell in strip.cells] == [
        ("gpu 0", ""),
        ("gpu 1", "p"),
        ("gpu 2", ""),
    ]


def test_diagram_fits_80_columns_with_cells_as_wide_as_their_slices(
    tmp_path: Path,
) -> None:
    path = tmp_path / "world.yaml"
    path.write_text(TO_ORDER)

    lines = gpuctl("simulate", "-o", "picture", str(path)).out.splitlines()

    assert lines[0] == "cut: GPU 0, A100-80"
    assert max(map(len, lines)) <= 80
    assert len(lines[1]) == 2 + 8 * SLICE_COLUMNS
    assert f"[{'3g.40gb':<{4 * SLICE_COLUMNS - 2}}]" in lines[1]
    assert "a-v…pod" in lines[2]
    assert f"[{'wide':<{4 * SLICE_COLUMNS - 2}}]" in lines[2]


def test_many_devices_go_on_in_the_next_row() -> None:
    lines = gpuctl(
        "simulate", "-o", "picture", str(ROOT / "examples/simulate/nodes.yaml")
    ).out.splitlines()

    assert max(map(len, lines)) <= 80


def test_the_svg_has_a_box_for_every_cell_and_its_whole_name(tmp_path: Path) -> None:
    path = tmp_path / "world.yaml"
    path.write_text(TO_ORDER)

    root = ET.fromstring(gpuctl("simulate", "-o", "svg", str(path)).out)  # noqa: S314 - our own

    boxes = Counter(box.attrib["class"] for box in root.iter(f"{SVG}rect"))
    assert boxes == {"held": 2, "free": 3}
    titles = [title.text for title in root.iter(f"{SVG}title")]
    assert "1g.10gb a-very-long-name-for-a-pod" in titles


@pytest.mark.parametrize("name", ["a<b", 'a"b', "a&b"])
def test_nothing_in_a_name_breaks_the_svg(name: str) -> None:
    strip = GpuRow(name, name, 1, False, (Cell(name, 0, 1, Use.HELD, name),))

    root = ET.fromstring(svg([strip]))  # noqa: S314 - our own

    assert name in [text.text for text in root.iter(f"{SVG}text")]
