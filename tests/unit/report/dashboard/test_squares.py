"""The GPUs and slices of a node, one by one, with their holders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.report.dashboard.pages.squares import Gpu, Slice, squares_of
from scheduler.state.capacity.node_devices import devices_of
from tests.builders import cluster, cut, dynamic, node, pod

OURS = "gpu-scheduler"


def squares(here: Node, *others: Any) -> tuple[tuple[Gpu, ...], tuple[Slice, ...]]:
    """The squares of a node of the cluster."""
    state = cluster(here, *others)
    node_info = state.at(here.name)
    assert node_info is not None
    return squares_of(node_info, devices_of(node_info, state.dra))


def drawn(gpus: Sequence[Gpu]) -> list[tuple[int, str, tuple[int, ...]]]:
    return [(one.index, one.state, one.holders) for one in gpus]


def on(name: str, **fields: Any) -> Pod:
    return pod(name, node="n1", scheduler=OURS, phase="Running", **fields)


def test_indexes_are_drawn_where_they_are() -> None:
    here = node(
        gpus=3,
        capacity={well_known.GPU: "4"},
        with_gpu_indexes=True,
        labels={well_known.GPU_COUNT: "4"},
        annotations={well_known.UNUSABLE_DEVICES: "1"},
    )
    gpus, slices = squares(here, on("a", gpus=1, devices="gpu:2"))

    assert drawn(gpus) == [
        (0, "free", ()),
        (1, "failed", ()),
        (2, "held", (0,)),
        (3, "free", ()),
    ]
    assert slices == ()


def test_counted_gpus_stand_side_by_side_by_holder() -> None:
    gpus, _ = squares(node(gpus=4), on("a", gpus=1), on("b", gpus=2))

    assert drawn(gpus) == [
        (0, "held", (0,)),
        (1, "held", (1,)),
        (2, "held", (1,)),
        (3, "free", ()),
    ]


@pytest.mark.parametrize(
    ("fields", "states"),
    [
        pytest.param({}, ["free", "free"], id="ready"),
        pytest.param({"cordoned": True}, ["unavailable", "unavailable"], id="cordoned"),
        pytest.param(
            {"capacity": {well_known.GPU: "3"}}, ["free", "free", "failed"], id="less-allocatable"
        ),
    ],
)
def test_devices_without_holder_have_the_state_of_the_sums(
    fields: dict[str, Any], states: list[str]
) -> None:
    gpus, _ = squares(node(gpus=2, **fields))

    assert [one.state for one in gpus] == states


def test_static_instances_are_listed_without_a_place() -> None:
    here = node(mig={"3g.20gb": 1, "1g.5gb": 2})
    gpus, slices = squares(here, on("a", mig={"1g.5gb": 1}), on("b", mig={"3g.20gb": 1}))

    assert gpus == ()
    assert slices == (
        Slice(profile="3g.20gb", state="held", holder=1),
        Slice(profile="1g.5gb", state="held", holder=0),
        Slice(profile="1g.5gb", state="free"),
    )


def test_dynamic_instances_are_drawn_with_start_and_size() -> None:
    here = dynamic(gpus=3, annotations={well_known.UNUSABLE_DEVICES: "2"})
    gpus, slices = squares(
        here,
        cut("n1", "3g.40gb@0/0", "1g.10gb@0/4"),
        on("a", mig={"3g.40gb": 1}, devices="3g.40gb@0/0"),
    )

    assert drawn(gpus) == [(0, "partial", (0,)), (1, "free", ()), (2, "failed", ())]
    assert gpus[0].slices == (
        Slice(profile="3g.40gb", state="held", start=0, size=4, holder=0),
        Slice(profile="1g.10gb", state="idle", start=4, size=1),
    )
    assert (gpus[0].slice_count, gpus[1].slices) == (8, ())
    assert slices == ()


def test_too_many_devices_are_not_drawn() -> None:
    gpus, _ = squares(node(gpus=17))
    _, slices = squares(node(mig={"1g.5gb": 129}))

    assert (gpus, slices) == ((), ())


@pytest.mark.parametrize("held", range(5))
def test_squares_and_sums_of_a_node_agree(held: int) -> None:
    here = node(gpus=4, capacity={well_known.GPU: "5"})
    pods = [on(f"p{number}", gpus=1) for number in range(held)]
    state = cluster(here, *pods)
    node_info = state.at("n1")
    assert node_info is not None
    sums = devices_of(node_info, state.dra)
    gpus, _ = squares_of(node_info, sums)

    amount = sums.devices["gpu"]
    states = [one.state for one in gpus]
    assert len(states) == amount.total
    assert states.count("held") == amount.held
    assert states.count("free") == amount.free
    assert states.count("failed") == amount.failed
