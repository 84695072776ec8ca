"""The Binding's body: the pod's uid as a precondition, and what is written on the pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.bind.binder import binding_annotations, encode_binding
from scheduler.framework.decision import Placement
from scheduler.model import well_known
from scheduler.model.gpu.device import Devices
from tests.builders import pod

PREFIX = "gpu-scheduler.io/"
CASES: list[Any] = [
    pytest.param({}, 7, {"decision": "d-1", "epoch": "7"}, id="nothing-given"),
    pytest.param({}, None, {"decision": "d-1"}, id="no-election"),
    pytest.param({}, 0, {"decision": "d-1", "epoch": "0"}, id="the-first-term-is-zero"),
    pytest.param(
        {"devices": Devices((2, 0)), "index": 0, "cuda_visible_devices": "2,0"},
        7,
        {
            "decision": "d-1",
            "epoch": "7",
            "devices": "gpu:2,0",
            "pod-index": "0",
            "cuda-visible-devices": "2,0",
        },
        id="mapped",
    ),
    pytest.param(
        {"devices": Devices((0, 1)), "cuda_visible_devices": "0,1", "shares": ("0", "1")},
        None,
        {
            "decision": "d-1",
            "devices": "gpu:0,1",
            "cuda-visible-devices": "0,1",
            "cuda-visible-devices.0": "0",
            "cuda-visible-devices.1": "1",
        },
        id="shares",
    ),
    pytest.param(
        {"devices": Devices(counts=(("2g.20gb", 1),))},
        None,
        {"decision": "d-1", "devices": "2g.20gb x 1"},
        id="counted",
    ),
]


@pytest.mark.parametrize(("given", "epoch", "written"), CASES)
def test_binding_sets_index_devices_and_decision_annotations(
    given: dict[str, Any], epoch: int | None, written: dict[str, str]
) -> None:
    placement = Placement(pod=pod(), node_name="n1", **given)

    found = binding_annotations(placement, "d-1", epoch)

    assert found == {PREFIX + key: value for key, value in written.items()}


@pytest.mark.parametrize(("given", "epoch", "written"), CASES)
def test_everything_a_binding_writes_is_protected(
    given: dict[str, Any], epoch: int | None, written: dict[str, str]
) -> None:
    found = binding_annotations(Placement(pod=pod(), node_name="n1", **given), "d-1", epoch)

    assert [key for key in found if not well_known.is_protected(key)] == []


def test_the_body_names_pod_node_and_uid() -> None:
    placement = Placement(pod=pod("w-0", uid="u-1", namespace="team"), node_name="n1")

    assert msgspec.json.decode(encode_binding(placement, "d-1", 3)) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": "w-0",
            "namespace": "team",
            "uid": "u-1",
            "annotations": {well_known.DECISION: "d-1", well_known.EPOCH: "3"},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }
