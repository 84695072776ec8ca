"""What a pod holds while it is resized in place (semantics 2.2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.watch.decode.pods import POD, to_pod

CPU_1 = {"cpu": "1", "memory": "1Gi"}


def requests_of(
    *, spec: dict[str, str], node: str = "n1", status: dict[str, Any] | None = None
) -> dict[str, int]:
    raw = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u"},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": spec}}],
        },
        "status": status or {},
    }
    return to_pod(POD.decode(msgspec.json.encode(raw))).requests


def status_of(*conditions: dict[str, str], **container: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "c", **container}], "conditions": list(conditions)}


PENDING = {"type": "PodResizePending", "status": "True"}


@pytest.mark.parametrize(
    ("status", "milli"),
    [
        pytest.param(None, 2000, id="no-status-yet"),
        pytest.param(status_of(), 2000, id="a-kubelet-that-says-nothing"),
        pytest.param(status_of(allocatedResources=CPU_1), 2000, id="growing-holds-what-it-asks"),
        pytest.param(
            status_of({**PENDING, "reason": "Deferred"}, allocatedResources=CPU_1),
            2000,
            id="deferred-still-counts-the-wish",
        ),
        pytest.param(
            status_of({**PENDING, "reason": "Infeasible"}, allocatedResources=CPU_1),
            1000,
            id="infeasible-counts-what-was-granted",
        ),
        pytest.param(
            status_of(allocatedResources={"cpu": "2"}, resources={"requests": {"cpu": "3"}}),
            3000,
            id="shrinking-holds-what-it-still-runs-with",
        ),
    ],
)
def test_a_pod_on_a_node_holds_the_largest_of_wish_grant_and_use(
    status: dict[str, Any] | None, milli: int
) -> None:
    assert requests_of(spec={"cpu": "2"}, status=status)["cpu"] == milli


def test_a_pod_that_waits_holds_what_it_asks_for() -> None:
    status = status_of(allocatedResources={"cpu": "5"})

    assert requests_of(spec={"cpu": "2"}, node="", status=status)["cpu"] == 2000


def test_devices_missing_from_the_status_stay_held() -> None:
    status = status_of(allocatedResources=CPU_1)

    held = requests_of(spec={"cpu": "1", "nvidia.com/gpu": "2"}, status=status)

    assert held["nvidia.com/gpu"] == 2
