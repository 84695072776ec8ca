"""Another MIG layout of a node in ``gpuctl whatif``, and the pods that have to leave for it."""

from __future__ import annotations

from typing import Any

from scheduler.model.well_known import FALLBACK, ORIGINAL
from tests.builders import node
from tests.unit.gpuctl.cli import MIG_1G, MIG_2G, spec, workload
from tests.unit.gpuctl.cli import pod as written_pod
from tests.unit.gpuctl.whatif.live_world import A100, asked, live, places, running, starts


def mig_node(name: str = "m1") -> Any:
    return node(name, gpus=0, mig={"3g.40gb": 4}, labels=A100)


def test_layout_moves_its_gpu_pods_and_makes_room() -> None:
    pods = [running("a-1", "m1", mig={"3g.40gb": 1}), running("cpu", "m1")]
    small = workload("Deployment", "web", spec(MIG_1G), replicas=14)

    found = asked(live(mig_node(), pods=pods), small, layout=["m1=1g.10gb:7"])

    assert starts(found) == (0, 14)
    assert places(found) == {"a-1": "waits"}
    assert found.moves[0].codes == ("INSUFFICIENT",)


def test_layout_stays_while_a_pod_cannot_leave() -> None:
    pods = [running("a-1", "m1", mig={"3g.40gb": 1}, owner="")]

    found = asked(
        live(mig_node(), pods=pods), written_pod("p", spec(MIG_1G)), layout=["m1=1g.10gb"]
    )

    assert starts(found) == (0, 0)
    assert found.failed == ("the layout of m1 stays: team/a-1 cannot leave it",)


def test_moved_pod_gets_its_first_wish_again() -> None:
    """It fell back to a smaller slice before; its controller does not know that."""
    original = '{"app":{"limits":{"nvidia.com/mig-2g.20gb":1}}}'
    record = {ORIGINAL: original, FALLBACK: "2g.20gb->1g.10gb"}
    pods = [running("a-1", "m1", mig={"1g.10gb": 1}, annotations=record)]
    nodes = [node(name, mig={"1g.10gb": 1, "2g.20gb": 1}, labels=A100) for name in ("m1", "m2")]

    planned = live(*nodes, pods=pods).recreated["team-a-1"]

    limits = planned.raw["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {MIG_2G: 1}
    assert planned.raw["metadata"]["annotations"] == {}
    assert places(asked(live(*nodes, pods=pods), drain=["m1"])) == {"a-1": "m2"}
