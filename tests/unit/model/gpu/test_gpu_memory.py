"""Amounts of GPU memory: which texts are amounts, and what has so much."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.gpu import gpu_memory
from scheduler.model.gpu.gpu_memory import GpuMemoryError
from tests.builders import MIG_1G, MIG_2G

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("16Gi", {"app": 16 * GIB}, id="the-first-container"),
        pytest.param(" 16Gi ", {"app": 16 * GIB}, id="blanks"),
        pytest.param("16384Mi", {"app": 16 * GIB}, id="another-unit"),
        pytest.param("prep=5G", {"prep": 5 * 10**9}, id="a-named-one"),
        pytest.param(
            "app=16Gi, prep = 5Gi", {"app": 16 * GIB, "prep": 5 * GIB}, id="several-by-name"
        ),
    ],
)
def test_memory_request_per_container(text: str, wanted: dict[str, int]) -> None:
    assert gpu_memory.wanted_of({well_known.WANTED_MEMORY: text}, ["app", "prep"]) == wanted
    assert gpu_memory.wanted_of({}, ["app"]) == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "'' is not an amount of memory such as 16Gi", id="empty"),
        pytest.param("lots", "'lots' is not an amount of memory", id="a-word"),
        pytest.param("16GB", "'16GB' is not an amount of memory", id="a-wrong-unit"),
        pytest.param("16", "16 is 16 bytes", id="a-forgotten-unit"),
        pytest.param("-16Gi", "which every GPU has", id="negative"),
        pytest.param("web=16Gi", "the pod has no container 'web', only app, prep", id="unknown"),
        pytest.param("app=1Gi,app=2Gi", "'app' is named twice", id="twice"),
        pytest.param("16Gi,5Gi", "'app' is named twice", id="two-without-names"),
        pytest.param("x" * 999, "'" + "x" * 40 + "'", id="long-nonsense-is-cut"),
    ],
)
def test_invalid_memory_request_is_refused_in_one_line(text: str, problem: str) -> None:
    with pytest.raises(GpuMemoryError) as refused:
        gpu_memory.wanted_of({well_known.WANTED_MEMORY: text}, ["app", "prep"])

    assert str(refused.value).startswith("gpu-scheduler.io/gpu-memory: ")
    assert problem in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    ("text", "floor"),
    [
        pytest.param(None, 0, id="none"),
        pytest.param("16Gi", 16 * GIB, id="a-floor"),
        pytest.param("1.5Gi", 3 * GIB // 2, id="a-fraction"),
    ],
)
def test_memory_floor(text: str | None, floor: int) -> None:
    assert gpu_memory.floor_of({} if text is None else {well_known.MEMORY_FLOOR: text}) == floor


def test_a_bad_floor_names_its_annotation() -> None:
    with pytest.raises(GpuMemoryError, match=r"^gpu-scheduler.io/memory-floor: 'x' is not"):
        gpu_memory.floor_of({well_known.MEMORY_FLOOR: "x"})


@pytest.mark.parametrize(
    ("resource", "amount", "enough"),
    [
        pytest.param(MIG_2G, 20 * GIB, True, id="exactly-its-name"),
        pytest.param(MIG_2G, 20 * GIB + 1, False, id="a-byte-more"),
        pytest.param(MIG_1G, 16 * GIB, False, id="too-small"),
        pytest.param("nvidia.com/mig-1g.24gb.me", 24 * GIB, True, id="a-variant"),
        pytest.param("nvidia.com/mig-odd", 1, False, id="no-profile"),
    ],
)
def test_a_profile_has_the_gigabytes_of_its_name(resource: str, amount: int, enough: bool) -> None:
    assert gpu_memory.has(resource, amount) is enough


@pytest.mark.parametrize(
    ("label_mib", "gigabytes"),
    [
        pytest.param(40536, 40, id="A100-40"),
        pytest.param(81251, 80, id="A100-80"),
        pytest.param(81559, 80, id="H100-80"),
        pytest.param(143771, 141, id="H200-141"),
        pytest.param(183359, 180, id="B200-180"),
        pytest.param(24576, 24, id="A30"),
    ],
)
def test_a_card_counts_as_having_the_gigabytes_of_its_name(label_mib: int, gigabytes: int) -> None:
    """The figures are those of nvidia.com/gpu.memory on such nodes."""
    assert gpu_memory.least_mib(gigabytes * GIB) <= label_mib
    assert gpu_memory.least_mib((gigabytes * 11 // 10) * GIB) > label_mib
