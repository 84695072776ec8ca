"""Groups that prefer a level use about as few domains as possible, and never leave a required one.

The least possible number is that of the roomiest domains which hold the group, whatever is between
them: the choice also keeps within the next farther level.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from scheduler.framework.decision import Rejection
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import GPU, cluster
from tests.gangs import members
from tests.topology import BLOCK, RACK, assume, plan, preferred, rack, required

BLOCKS, RACKS, NODES, GPUS = 3, 4, 4, 8
#: Groups that are placed, and how often one of the running groups ends before the next one.
GROUPS: Final = 80
SPREAD_MAX: Final = 1.1


def network() -> Cluster:
    """The blocks of a cluster, with racks of a few nodes."""
    every = [(block, number) for block in range(BLOCKS) for number in range(RACKS)]
    nodes = [one for b, n in every for one in rack(f"r{n}", *([GPUS] * NODES), block=f"b{b}")]
    return cluster(*nodes)


def rooms(state: Cluster, gpus: int) -> Counter[str]:
    """How many pods with so many GPUs fit into each rack."""
    found: Counter[str] = Counter()
    for info in state.nodes.candidates():
        assert info.node is not None
        found[place(state, info.node.name, RACK)] += info.free(GPU) // gpus
    return found


def place(state: Cluster, node_name: str, key: str) -> str:
    """The block, or the rack with its block."""
    info = state.nodes.at(node_name)
    assert info is not None
    assert info.node is not None
    labels = info.node.labels
    return labels[BLOCK] if key == BLOCK else f"{labels[BLOCK]}/{labels[RACK]}"


def least(free: Counter[str], count: int) -> int:
    """The fewest racks that hold so many pods."""
    for number, (_, room) in enumerate(free.most_common(), 1):
        count -= room
        if count <= 0:
            return number
    return 0


def test_mean_spread_is_near_the_least_possible() -> None:
    """A stream of groups of 2 to 48 pods on a cluster that is three quarters full."""
    draw = random.Random(18)
    state, running = network(), list[list[Pod]]()
    spreads: list[float] = []
    split: list[bool] = []
    for number in range(GROUPS):
        gpus, count = draw.choice((1, 1, 2, 4, 8)), draw.randint(2, 48)
        while running and _busy(state) + gpus * count > 0.75 * BLOCKS * RACKS * NODES * GPUS:
            for one in running.pop(draw.randrange(len(running))):
                state.delete_pod(one.uid)
        pods = members(count, count, f"g{number}", gpus=gpus, annotations=preferred(RACK))
        free = rooms(state, gpus)
        found = plan(state, pods)
        if isinstance(found, Rejection):
            assert sum(free.values()) < count
            for one in pods:
                state.delete_pod(one.uid)
            continue
        used = {place(state, one.node_name, RACK) for one in found.placements}
        spreads.append(len(used) / least(free, count))
        split.append(len(used) > 1)
        assume(state, found)
        running.append(pods)

    assert len(spreads) > GROUPS // 2
    assert sum(split) > GROUPS // 4, "most groups fit into one rack anyway"
    assert sum(spreads) / len(spreads) <= SPREAD_MAX


def _busy(state: Cluster) -> int:
    return sum(GPUS - info.free(GPU) for info in state.nodes.candidates())


@given(
    st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=3), min_size=1, max_size=5),
    st.integers(1, 12),
    st.sampled_from([1, 2]),
    st.booleans(),
)
def test_required_holds_and_refuses_only_without_room(
    racks: list[list[int]], count: int, gpus: int, with_near: bool
) -> None:
    nodes = [
        one for at, sizes in enumerate(racks) for one in rack(f"r{at}", *sizes, block=f"b{at % 2}")
    ]
    state = cluster(*nodes)
    near = {**required(BLOCK), **preferred(RACK)} if with_near else required(RACK)
    key = BLOCK if with_near else RACK
    free: Counter[str] = Counter()
    for one in nodes:
        free[place(state, one.name, key)] += one.allocatable[GPU] // gpus

    found = plan(state, members(count, count, gpus=gpus, annotations=near))

    if isinstance(found, Rejection):
        assert max(free.values()) < count
        return
    assert len({place(state, one.node_name, key) for one in found.placements}) == 1
    fitting = [room for room in free.values() if room >= count]
    if not with_near:
        assert free[place(state, found.placements[0].node_name, key)] == min(fitting)
