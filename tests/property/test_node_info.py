"""Invariants of the accounting of a node, for any sequence of pods."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import well_known
from scheduler.model.pods.pod import Pod
from scheduler.state.node_info import NodeInfo, over_committed
from scheduler.state.pod_allocation import allocation_of
from tests.builders import GPU, node, pod

NODE = node(gpus=4, with_gpu_indexes=True, mig={"1g.10gb": 3})
UIDS = st.sampled_from("abcdef")


@st.composite
def placed_pods(draw: st.DrawFn) -> Pod:
    """Placed pods of any origin: ours, foreign and forged."""
    devices = draw(
        st.sampled_from(["", "gpu:0", "gpu:1,2", "gpu:3,9", "gpu x 1", "nonsense", "gpu:0,1,2,3"])
    )
    return pod(
        draw(UIDS),
        gpus=draw(st.integers(0, 3)),
        mig={"1g.10gb": draw(st.integers(0, 1))},
        scheduler=draw(st.sampled_from(["gpu-scheduler", "default-scheduler"])),
        annotations={
            **({well_known.DEVICES: devices} if devices else {}),
            **({well_known.MAP: "0=n1:0"} if draw(st.booleans()) else {}),
        },
        owner=draw(st.sampled_from(["", "StatefulSet/w", "Job/j"])),
        node="n1",
    )


steps = st.lists(placed_pods() | UIDS.map(lambda name: f"team-{name}"), max_size=12)


def play(moves: list[Pod | str]) -> NodeInfo:
    node_info = NodeInfo(NODE)
    for move in moves:
        if isinstance(move, str):
            node_info.remove(move)
        else:
            node_info.add(move, allocation_of(move, None, well_known.SCHEDULER_NAME, may_map=True))
    return node_info


@given(steps)
def test_sums_equal_those_of_the_present_pods(moves: list[Pod | str]) -> None:
    node_info = play(moves)
    new_instances = play([one for one, _ in node_info.pods.values()])

    assert {k: v for k, v in node_info.used.items() if v} == {
        k: v for k, v in new_instances.used.items() if v
    }
    assert node_info.usage == new_instances.usage
    assert node_info.mapped_past_plugin == new_instances.mapped_past_plugin
    assert node_info.free_indexes() == new_instances.free_indexes()


@given(steps)
def test_a_copy_is_equal_and_independent(moves: list[Pod | str]) -> None:
    node_info = play(moves)
    twin = node_info.copy()
    past_plugin = node_info.mapped_past_plugin
    tally, used = node_info.usage, dict(node_info.used)
    for uid in list(twin.pods):
        twin.remove(uid)
    twin.add(
        pod("z", gpus=4),
        allocation_of(pod("z", gpus=4), None, well_known.SCHEDULER_NAME, may_map=True),
    )

    assert (node_info.usage, node_info.used) == (tally, used)
    assert node_info.mapped_past_plugin == past_plugin


@given(steps)
def test_free_by_number_equals_free_by_count_where_numbers_are_known(
    moves: list[Pod | str],
) -> None:
    """Handing out by number relies on it: a count without numbers would be a crash."""
    node_info = play(moves)

    assert node_info.usage.unknown or len(node_info.free_indexes()) >= node_info.free(GPU)


@given(steps)
def test_every_requested_gpu_is_held_by_number_or_as_unknown(
    moves: list[Pod | str],
) -> None:
    node_info = play(moves)

    for holder, allocation in node_info.pods.values():
        requested = holder.requests.get(GPU, 0)
        assert not requested or len(allocation.numbers) + allocation.unknown == requested


@given(steps)
def test_devices_of_foreign_pods_are_always_counted(moves: list[Pod | str]) -> None:
    node_info = play(moves)
    excess = over_committed(node_info)

    for number, allocations in node_info.usage.holders.items():
        if len({(one.sharing, one.is_mapped) for one in allocations}) > 1:
            assert excess[f"gpu:{number}"] == len(allocations) - 1
