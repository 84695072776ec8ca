"""Events about what a pod has instead of its request."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.plugins import default_pipeline
from tests.builders import cluster, node, placed, pod

RECORD = '{"app":{"limits":{"nvidia.com/mig-2g.20gb":"1"}}}'
DEGRADED = {well_known.FALLBACK: "2g.20gb->1g.10gb", well_known.ORIGINAL: RECORD}
WITH_MEMORY = {well_known.WANTED_MEMORY: "16Gi", well_known.MEMORY_GIVEN: "app=gpu"}


def notes(asking: Any, *, restores: bool = True, card: str = "81559") -> Any:
    host = node(gpus=2, mig={"1g.10gb": 1}, labels={well_known.GPU_MEMORY: card})
    pipeline = default_pipeline(Settings(restores=restores))
    return placed(cluster(host), asking, pipeline).notes


@pytest.mark.parametrize(
    ("fields", "restores", "later"),
    [
        pytest.param(
            {},
            True,
            "it keeps 1g.10gb: the pod has no controller, so it would not be created again",
            id="bare-pod",
        ),
        pytest.param(
            {"owner": "ReplicaSet/web"},
            True,
            "a restore gives it 2g.20gb when that is free",
            id="controller",
        ),
        pytest.param({"owner": "ReplicaSet/web"}, False, "it keeps 1g.10gb", id="restores-off"),
    ],
)
def test_step_down_is_an_event_with_both_tiers(
    fields: dict[str, Any], restores: bool, later: str
) -> None:
    asking = pod(mig={"1g.10gb": 1}, annotations=DEGRADED, **fields)

    assert notes(asking, restores=restores) == (
        (
            "SteppedDown",
            f"the pod requested 2g.20gb, which was not free, and has 1g.10gb; {later}",
        ),
    )


def test_whole_gpu_for_a_part_of_its_memory_is_an_event() -> None:
    [(reason, text)] = notes(pod(gpus=1, annotations=WITH_MEMORY))

    assert reason == "WholeGpuGiven"
    assert text == (
        "the pod requested 16Gi of GPU memory and has a whole GPU with 79.6Gi (81559 MiB),"
        " because no MIG instance with this memory was free"
    )


@pytest.mark.parametrize("card", ["24576", "invalid"], ids=["small-gpu", "unknown-memory"])
def test_whole_gpu_of_about_the_requested_memory_is_no_event(card: str) -> None:
    assert notes(pod(gpus=1, annotations=WITH_MEMORY), card=card) == ()


def test_pod_with_its_request_has_no_event() -> None:
    assert notes(pod(gpus=1)) == ()
