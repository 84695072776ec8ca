"""docs/mig.md prints the product's own tables, and says of every board how far to trust them."""

from __future__ import annotations

import re

from scheduler.model.mig import layout
from scheduler.model.mig.node_geometry import geometry
from tools.mig_page import BEGIN, END, PAGE, SOURCES, render

TEXT = PAGE.read_text(encoding="utf-8")


def test_mig_tables_equal_the_generator_output() -> None:
    written = TEXT.partition(BEGIN)[2].partition(END)[0]
    assert written == render(), "stale: run python -m tools.mig_page"


def test_every_gpu_model_names_its_source() -> None:
    assert SOURCES.keys() == layout.GPU_MODELS.keys()


def test_page_example_is_accepted_by_the_product() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    labels = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB", "nvidia.com/gpu.count": "5"}
    found = geometry(labels, {"run.ai/mig.config": example}, {})
    assert found.flaws == ()
    assert len({gpu.layout for gpu in found.gpus[:3]}) == 1
    assert [gpu.has_mig for gpu in found.gpus] == [True, True, True, True, False]
