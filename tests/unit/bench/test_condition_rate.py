"""The bare loop of status patches that the scheduler's conditions are compared with."""

from __future__ import annotations

from typing import Any, cast

from bench.load import Request
from bench.pending import condition_rate
from tools.controlplane import ControlPlane

CONDITION = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/mig-2g.20gb.",
    "lastProbeTime": None,
    "lastTransitionTime": "2026-11-29T10:00:00Z",
}
INITIALIZED = {"type": "Initialized", "status": "True"}


class Api:
    """Two pods of one namespace, the first with the scheduler's condition."""

    def request(self, _method: str, _path: str, **_: Any) -> Any:
        first = {"conditions": [INITIALIZED, {**CONDITION, "observedGeneration": 1}]}
        return {
            "items": [
                {"metadata": {"name": "p-00000", "uid": "u0"}, "status": first},
                {"metadata": {"name": "p-00001", "uid": "u1"}, "status": {}},
            ]
        }


class Plane:
    client = Api()


PLANE = cast("ControlPlane", Plane())


def test_bare_loop_sends_the_schedulers_patch_for_every_pod() -> None:
    written = condition_rate._condition(PLANE, "n")
    patches = condition_rate._patches(PLANE, "n", written)

    assert patches == [
        Request(
            "PATCH",
            f"/api/v1/namespaces/n/pods/{name}/status",
            {"metadata": {"uid": uid}, "status": {"conditions": [CONDITION]}},
        )
        for name, uid in (("p-00000", "u0"), ("p-00001", "u1"))
    ]
