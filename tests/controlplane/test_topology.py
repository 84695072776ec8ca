"""Levels of the topology on the real API server."""

from __future__ import annotations

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Json, Watcher, node_of, pod, why

GPU = "nvidia.com/gpu"
#: The level is detected: all GPU nodes have this label.
RACK = "cloud.provider.com/topology-rack"
#: By rack the GPUs of its nodes.
RACKS = {"r1": (2, 2), "r2": (4, 4)}


def members(group: str, count: int) -> list[Json]:
    return [
        pod(
            f"{group}-{rank}",
            labels={well_known.GROUP: group},
            annotations={
                well_known.GROUP_MIN: str(count),
                well_known.TOPOLOGY_REQUIRED: RACK,
            },
            limits={GPU: "1"},
        )
        for rank in range(count)
    ]


def racks_of(items: list[Json], group: str) -> set[str]:
    mine = [item for item in items if item["metadata"]["labels"][well_known.GROUP] == group]
    return {node_of(item).partition("-")[0] for item in mine}


def test_a_group_stays_within_one_rack_or_waits(here: Watcher, kwok_node: MakeNode) -> None:
    """The second group fits into the cluster, and only into the rack that is in use."""
    for rack, sizes in RACKS.items():
        for number, gpus in enumerate(sizes):
            kwok_node(f"{rack}-{number}", gpus=gpus, labels={RACK: rack})
    for body in members("large", 5):
        here.create(body)
    here.wait("the first group", lambda seen: racks_of(seen, "large") == {"r2"})

    for body in members("next", 5):
        here.create(body)
    items = here.wait(
        "the second group to be explained",
        lambda seen: sum("has room for" in why(item) for item in seen if not node_of(item)) == 5,
    )

    (text,) = {why(item) for item in items if not node_of(item)}
    assert f"no domain of {RACK} has room for the 5 members of group next" in text
    assert "r1 has room for 4; r2 has room for 3" in text

    here.client.delete(here.path("Pod", "large-0"))
    here.client.delete(here.path("Pod", "large-1"))
    here.wait("the second group", lambda seen: racks_of(seen, "next") == {"r2"})
