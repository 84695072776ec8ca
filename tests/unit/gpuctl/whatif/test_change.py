"""The change of ``gpuctl whatif``: its words, the shapes of nodes, and MIG layouts."""

from __future__ import annotations

import pytest

from gpuctl.input_error import InputError
from gpuctl.whatif.change import AddedNodes, Change, NewLayout, parse_change
from gpuctl.whatif.mig_layouts import with_layout
from gpuctl.whatif.node_shapes import new_nodes, shape_of
from scheduler.model.dra.resource_slice import ResourceSlice
from scheduler.model.node import Node
from scheduler.model.volumes.storage import CsiNode
from tests.builders import dynamic, node
from tests.dra import resource_slice
from tests.unit.gpuctl.whatif.live_world import A100, H100, live

GPU = "nvidia.com/gpu"
HOST = "kubernetes.io/hostname"


def mig_node(name: str = "m1", **fields: object) -> Node:
    """Two A100, each with a 3g.40gb and a 2g.20gb."""
    return node(name, gpus=0, mig={"3g.40gb": 2, "2g.20gb": 2}, labels={**A100, **fields})  # type: ignore[dict-item]  # labels are texts


def test_words_become_a_change() -> None:
    found = parse_change(
        ["h100x8:2", "like=n1:1"], ["n2", "n2"], ["n3=3g.40gb:2,1g.10gb", "n4=all-balanced"]
    )

    assert found == Change(
        added=(AddedNodes("h100x8", 2), AddedNodes("n1", 1, is_name=True)),
        drained=("n2",),
        layouts=(
            NewLayout("n3", profiles=("3g.40gb", "3g.40gb", "1g.10gb")),
            NewLayout("n4", named="all-balanced"),
        ),
    )
    assert found.emptied == ("n2", "n3", "n4")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param((["h100x8"], [], []), "--add-nodes h100x8: write SHAPE:N", id="no-count"),
        pytest.param((["h100x8:0"], [], []), "--add-nodes h100x8:0: write SHAPE:N", id="none"),
        pytest.param(([":2"], [], []), "--add-nodes :2: write SHAPE:N", id="no-shape"),
        pytest.param(([], [], ["n1"]), "--layout n1: write NODE=PROFILE", id="no-profiles"),
        pytest.param(([], [], ["n1=1g.10gb:x"]), "--layout: 1g.10gb:x is no PROFILE:N", id="word"),
        pytest.param(
            ([], ["n1"], ["n1=1g.10gb"]), "node n1 is in --layout and in another", id="both"
        ),
    ],
)
def test_wrong_words_are_one_line(words: tuple[list[str], ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_change(*words)

    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


# --- nodes to add --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "shape"),
    [
        pytest.param(node(gpus=8, labels=H100), "h100x8", id="by-label"),
        pytest.param(node(gpus=4), "gpux4", id="without-labels"),
        pytest.param(mig_node(), "a100x2", id="mig"),
        pytest.param(dynamic(gpus=2), "a100x2", id="dynamic-mig"),
        pytest.param(node(), "", id="no-gpus"),
    ],
)
def test_shape_is_the_board_and_the_gpus(one: Node, shape: str) -> None:
    assert shape_of(one) == shape


def test_new_node_is_an_empty_copy() -> None:
    model = node(
        "n1",
        gpus=7,
        capacity={GPU: "8"},
        labels={**H100, HOST: "n1", "gpu-node": "alias", "pool": "a"},
        taints=["gpu=reserved:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"],
        cordoned=True,
        annotations={"gpu-scheduler.io/unusable-devices": "3"},
    )
    state = live(model).state

    (added,) = new_nodes(state, [AddedNodes("n1", 1, is_name=True)])

    assert (added.node.name, added.like) == ("n1-new-1", "n1")
    assert added.node.labels == {**H100, HOST: "n1-new-1", "pool": "a"}
    assert added.node.allocatable[GPU] == 8
    assert [taint.key for taint in added.node.taints] == ["gpu"]
    assert not added.node.unschedulable
    assert not added.node.failed_gpus


def test_what_drivers_publish_is_copied_with_the_node() -> None:
    devices = resource_slice("n1", "gpu-0", driver="d")
    state = live(node("n1", gpus=1), dra=(devices,), storage=(CsiNode(name="n1"),)).state

    first, second = new_nodes(state, [AddedNodes("n1", 2)])

    assert [one.name for one in first.storage] == ["n1-new-1"]
    (copied,) = second.dra
    assert isinstance(copied, ResourceSlice)
    assert (copied.pool, copied.nodes.node_name) == ("n1-new-2", "n1-new-2")
    assert [str(one.id) for one in copied.devices] == ["d/n1-new-2/gpu-0"]


def test_shape_takes_the_first_ready_node() -> None:
    state = live(node("bad", gpus=8, labels=H100, cordoned=True), node("good", gpus=8, labels=H100))

    assert new_nodes(state.state, [AddedNodes("H100x8", 1)])[0].like == "good"


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        pytest.param(
            AddedNodes("h200x8", 1),
            "--add-nodes h200x8: no ready node of that shape; there are: h100x8 (1 node),"
            " or like=NODE",
            id="shape",
        ),
        pytest.param(
            AddedNodes("n9", 1, is_name=True),
            "--add-nodes like=n9: no node n9; there are: n1",
            id="name",
        ),
    ],
)
def test_unknown_shape_is_answered_with_those_that_exist(wanted: AddedNodes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        new_nodes(live(node("n1", gpus=8, labels=H100)).state, [wanted])

    assert str(caught.value) == message


# --- MIG layouts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "offered"),
    [
        pytest.param(
            NewLayout("m1", profiles=("1g.10gb",) * 7), {"1g.10gb": 14, "gpu": 0}, id="profiles"
        ),
        pytest.param(
            NewLayout("m1", named="all-balanced"),
            {"3g.40gb": 2, "2g.20gb": 2, "1g.10gb": 4, "gpu": 0},
            id="name-of-mig-manager",
        ),
        pytest.param(NewLayout("m1", named="all-disabled"), {"gpu": 2}, id="whole-gpus"),
    ],
)
def test_layout_replaces_the_instances(layout: NewLayout, offered: dict[str, int]) -> None:
    found = with_layout(mig_node(), layout)

    amounts = {key.rpartition("/")[2].removeprefix("mig-"): n for key, n in found.capacity.items()}
    assert amounts == offered
    assert {found.unit(name): found.allocatable[name] for name in found.devices} == offered


def test_layout_updates_the_labels_that_the_node_has() -> None:
    before = {
        "nvidia.com/mig.config": "all-balanced",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/mig-3g.40gb.count": "2",
    }

    found = with_layout(mig_node(**before), NewLayout("m1", named="all-7g.80gb"))

    assert found.labels == {
        **A100,
        "nvidia.com/mig.config": "all-7g.80gb",
        "nvidia.com/gpu.replicas": "0",
        "nvidia.com/mig-7g.80gb.count": "2",
        "nvidia.com/mig-7g.80gb.replicas": "1",
        "nvidia.com/mig-7g.80gb.product": "NVIDIA-A100-SXM4-80GB-MIG-7g.80gb",
    }


@pytest.mark.parametrize(
    ("one", "layout", "message"),
    [
        pytest.param(
            mig_node(),
            NewLayout("m1", profiles=("3g.40gb",) * 3),
            "--layout m1=3g.40gb,3g.40gb,3g.40gb: 3 x 3g.40gb do not fit on one A100-80",
            id="too-much",
        ),
        pytest.param(
            mig_node(),
            NewLayout("m1", named="all-9g.90gb"),
            "--layout m1=all-9g.90gb: no such configuration for A100-80",
            id="unknown-name",
        ),
        pytest.param(
            dynamic("m1"),
            NewLayout("m1", named="all-balanced"),
            "--layout m1=all-balanced: the node has dynamic MIG, which needs no layout",
            id="dynamic",
        ),
        pytest.param(
            node("m1", gpus=4),
            NewLayout("m1", named="all-balanced"),
            "--layout m1=all-balanced: label nvidia.com/gpu.product names no board with MIG",
            id="no-board",
        ),
        pytest.param(
            node("m1", gpus=7, labels={"nvidia.com/gpu.product": "NVIDIA-A100-40GB-MIG-1g.5gb"}),
            NewLayout("m1", named="all-balanced"),
            "--layout m1=all-balanced: the node has MIG strategy single; only mixed is supported",
            id="single",
        ),
    ],
)
def test_impossible_layout_is_one_line(one: Node, layout: NewLayout, message: str) -> None:
    with pytest.raises(InputError) as caught:
        with_layout(one, layout)

    assert str(caught.value) == message
