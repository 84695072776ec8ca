"""Annotations that nearly are those of gpu-scheduler."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.pods.written_annotations import RECORDS, WRITTEN
from tests.unit.webhook.pods import answer, pod, run
from webhook.mutate.unknown_annotations import COMPARED_MAX, WARNINGS_MAX, warnings


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        pytest.param("gpu-scheduler.io/gpu-mem", well_known.WANTED_MEMORY, id="shortened"),
        pytest.param("gpu-scheduler.io/gpu_memory", well_known.WANTED_MEMORY, id="underscore"),
        pytest.param("gpu-scheduler/mig-fallback", well_known.MIG_FALLBACK, id="domain"),
        pytest.param("gpu-scheduling-maps", well_known.MAP, id="plural"),
    ],
)
def test_mistyped_annotation_is_answered_with_the_known_one(key: str, meant: str) -> None:
    [text] = run(pod(annotations={key: "16Gi"}), answer()).warnings

    assert text == f"annotation {key} is unknown and ignored; did you mean {meant}?"


def test_unknown_name_with_our_prefix_has_no_guess() -> None:
    assert warnings(["gpu-scheduler.io/zzz"]) == [
        "annotation gpu-scheduler.io/zzz is unknown and ignored"
    ]


@pytest.mark.parametrize(
    "key",
    [
        *WRITTEN,
        *RECORDS,
        *well_known.BINDING_KEYS,
        *well_known.ADMISSION_KEYS,
        well_known.FALLBACK,
        well_known.ORIGINAL,
        "nvidia.com/gpu.memory",
        "scheduling.k8s.io/group-name",
        "gpu-operator.nvidia.com/version",
    ],
)
def test_known_and_foreign_annotations_have_no_warning(key: str) -> None:
    assert warnings([key]) == []


def test_number_of_warnings_is_bounded() -> None:
    assert len(warnings(f"gpu-scheduler.io/x{number}" for number in range(50))) == WARNINGS_MAX


def test_number_of_compared_keys_is_bounded() -> None:
    """Each comparison costs, and a review may have as many keys as its body has room for."""
    foreign = [f"gpu-operator.nvidia.com/{number}" for number in range(COMPARED_MAX)]

    assert warnings([*foreign[1:], "gpu-scheduler.io/zzz"]) != []
    assert warnings([*foreign, "gpu-scheduler.io/zzz"]) == []
