"""Defragmentation plans on random GPUs: bounded, possible, and carried out in every order."""

from __future__ import annotations

import itertools
from typing import Final

import msgspec
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from scheduler.decide.migration.defrag import plan
from scheduler.decide.migration.defrag_plan import Plan, Relocation
from scheduler.decide.schedule_one import place
from scheduler.model.gpu.device import Devices, MigPlacement
from scheduler.model.mig import layout as mig_layout
from scheduler.model.mig.layout_cost import cost
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.mig.dynamic_gpus import BLOCKED
from tests.builders import ALLOW_ALL_MAPS, cluster, dynamic, pod

GPU_MODEL: Final = mig_layout.GPU_MODELS["A100-80"]
PROFILES: Final = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
LAYOUTS: Final = [
    one
    for one in mig_layout.layouts(GPU_MODEL, [GPU_MODEL.profiles[name] for name in PROFILES])
    if 0 < len(one) <= 4 and 3 <= mig_layout.occupancy(GPU_MODEL, one).bit_count() <= 6
]
GPUS: Final = st.lists(st.sampled_from(LAYOUTS), min_size=2, max_size=4)
WANTED: Final = st.sampled_from(("2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"))


def state_of(gpus: list[mig_layout.Layout]) -> Cluster:
    """A node for each GPU, and a pod for each instance."""
    nodes = [dynamic(f"n{number}") for number in range(len(gpus))]
    pods = [
        pod(
            f"p{number}-{start}",
            mig={profile: 1},
            node=f"n{number}",
            devices=f"{profile}@0/{start}",
        )
        for number, layout in enumerate(gpus)
        for profile, start in layout
    ]
    return cluster(*nodes, *pods)


def planned(gpus: list[mig_layout.Layout], profile: str, moves_max: int) -> tuple[Pod, Plan]:
    """The plan for a pod that does not fit."""
    big = pod("big", mig={profile: 1})
    state = state_of(gpus)
    assume(place(state, big, ALLOW_ALL_MAPS) is None)
    found = plan(state, big, ALLOW_ALL_MAPS, moves_max=moves_max)
    assume(found is not None)
    assert found is not None
    event(f"{found.restarts} moves, certain: {found.is_certain}")
    return big, found


def layout_cost(state: Cluster) -> float:
    """The layout cost of all GPUs, none of which is contradictory."""
    total = 0.0
    for node_info in state.candidates():
        assert node_info.gpus is not None
        (layout,) = node_info.gpus.held
        assert layout != BLOCKED
        total += cost(GPU_MODEL, layout)
    return total


@given(gpus=GPUS, profile=WANTED, moves_max=st.integers(1, 3))
def test_plan_is_bounded_and_holds_no_slice_twice(
    gpus: list[mig_layout.Layout], profile: str, moves_max: int
) -> None:
    big, found = planned(gpus, profile, moves_max)
    state = state_of(gpus)
    before = layout_cost(state)

    for move in found.moves:
        state.delete_pod(move.pod.uid)
    for move in found.moves:
        assert [one.profile for one in move.devices.mig_placements] == [move.source.profile]
        state.assume(move.pod, Assumption(move.node_name, move.devices))
    devices = Devices(mig_placements=(found.mig_placement,))
    state.assume(big, Assumption(found.node_name, devices))

    assert 1 <= found.restarts <= moves_max
    assert len({move.pod.uid for move in found.moves}) == found.restarts
    assert found.gain == pytest.approx(before - layout_cost(state), abs=1e-5)


@given(gpus=GPUS, profile=WANTED)
def test_certain_plan_is_carried_out_in_every_order(
    gpus: list[mig_layout.Layout], profile: str
) -> None:
    """Each replacement is decided before or after the old pod has ended, and the last one also
    after the waiting pod: all of them are placed, and so is the waiting pod.
    """
    big, found = planned(gpus, profile, 2)
    assume(found.is_certain)
    *first, last = found.moves

    for early in itertools.product((True, False), repeat=len(first)):
        for is_early, is_last in ((True, False), (False, False), (False, True)):
            state = state_of(gpus)
            for move, is_before in zip(first, early, strict=True):
                assert replaced(state, move, is_before=is_before) == places(move)
            if is_last:
                state.delete_pod(last.pod.uid)
                assert decided(state, big) is not None
            assert replaced(state, last, is_before=is_early) == places(last)
            assert is_last or decided(state, big) is not None
            layout_cost(state)


@given(gpus=GPUS, profile=WANTED)
def test_more_moves_never_take_a_certain_plan_away(
    gpus: list[mig_layout.Layout], profile: str
) -> None:
    big, one = planned(gpus, profile, 1)
    assume(one.is_certain)

    assert plan(state_of(gpus), big, ALLOW_ALL_MAPS, moves_max=2) == one


def places(move: Relocation) -> tuple[str, tuple[MigPlacement, ...]]:
    """The place of the replacement in the plan."""
    return move.node_name, move.devices.mig_placements


def replaced(
    state: Cluster, move: Relocation, *, is_before: bool
) -> tuple[str, tuple[MigPlacement, ...]] | None:
    """Evict a pod; its replacement is decided before or after it has ended."""
    replacement = msgspec.structs.replace(
        move.pod, uid=f"{move.pod.uid}-new", name=f"{move.pod.name}-new", node_name=""
    )
    if is_before:
        found = decided(state, replacement)
        state.delete_pod(move.pod.uid)
        return found
    state.delete_pod(move.pod.uid)
    return decided(state, replacement)


def decided(state: Cluster, newcomer: Pod) -> tuple[str, tuple[MigPlacement, ...]] | None:
    """Place a pod where the scheduler's decision places it."""
    found = place(state, newcomer, ALLOW_ALL_MAPS)
    if found is None:
        return None
    state.assume(newcomer, Assumption(found.node_name, found.devices))
    return found.node_name, found.devices.mig_placements
