"""What a node will offer once mig-manager has laid it out."""

from __future__ import annotations

import pytest

from scheduler.model import well_known
from scheduler.model.gpu.plugin_resources import without_gpus
from scheduler.model.node import Node
from scheduler.state import event as ev
from scheduler.state.fold import fold
from scheduler.state.mig.coming_layouts import ComingLayouts
from tests.builders import cluster, dynamic, node
from tests.dra import resource_slice

A100 = {well_known.GPU_PRODUCT: "NVIDIA-A100-SXM4-80GB", well_known.GPU_COUNT: "2"}
MANAGED = {well_known.MIG_MANAGER: "true"}
WANTED, STATE = well_known.MIG_WANTED, well_known.MIG_STATE
STRATEGY = well_known.MIG_STRATEGY
SEVENTHS = {"nvidia.com/mig-1g.10gb": 14}


def fresh(config: str, state: str = "", **labels: str) -> dict[str, str]:
    shown = {STATE: state} if state else MANAGED
    return {**A100, WANTED: config, **shown, **labels}


def coming(one: Node) -> Node | None:
    return cluster(one).nodes.coming.nodes.get(one.name)


EXPECTED = [
    pytest.param(fresh("all-1g.10gb"), {}, SEVENTHS, id="not-begun"),
    pytest.param({**A100, WANTED: "all-1g.10gb"}, {}, SEVENTHS, id="no-label-of-the-operator-yet"),
    pytest.param(fresh("all-1g.10gb", "pending"), {}, SEVENTHS, id="pending"),
    pytest.param(fresh("all-1g.10gb", "rebooting"), {}, SEVENTHS, id="rebooting"),
    pytest.param(fresh("all-1g.10gb", "success"), {}, SEVENTHS, id="not-advertised-yet"),
    pytest.param(
        fresh("all-balanced", "pending"),
        {},
        {"nvidia.com/mig-3g.40gb": 2, "nvidia.com/mig-2g.20gb": 2, "nvidia.com/mig-1g.10gb": 4},
        id="balanced",
    ),
    pytest.param(
        fresh("all-disabled", "pending"), {"1g.10gb": 14}, {well_known.GPU: 2}, id="whole-gpus"
    ),
    pytest.param(
        fresh("all-1g.10gb.me", "pending"), {}, {"nvidia.com/mig-1g.10gb.me": 2}, id="media-engines"
    ),
]


@pytest.mark.parametrize(("labels", "mig", "offers"), EXPECTED)
def test_layout_of_a_named_configuration_is_expected(
    labels: dict[str, str], mig: dict[str, int], offers: dict[str, int]
) -> None:
    found = coming(node(gpus=2, mig=mig, labels=labels))

    assert found is not None
    kept = without_gpus(found.allocatable)
    assert {r: n for r, n in found.allocatable.items() if r not in kept} == offers
    assert (found.mig_hold, found.mig_awaited) == ("", "")


NOTHING = [
    pytest.param(node(gpus=2, labels=fresh("all-1g.10gb", "failed")), id="failed"),
    pytest.param(
        node(mig={"1g.10gb": 13}, labels=fresh("all-1g.10gb", "success")), id="one-instance-failed"
    ),
    pytest.param(node(gpus=2, labels=fresh("by-hand", "pending")), id="own-configuration"),
    pytest.param(node(gpus=2, labels=fresh("all-enabled", "pending")), id="no-instances"),
    pytest.param(
        node(gpus=2, labels={WANTED: "all-1g.10gb", STATE: "pending"}), id="unknown-gpu-model"
    ),
    pytest.param(node(labels=A100 | {WANTED: "all-1g.10gb", well_known.MIG_CAPABLE: "false"})),
    pytest.param(
        node(gpus=2, labels=fresh("all-1g.10gb", "success", **{STRATEGY: "none"})), id="no-strategy"
    ),
    pytest.param(dynamic(labels=fresh("all-1g.10gb", "pending")), id="dynamic-mig"),
    pytest.param(node(gpus=2, labels=A100), id="no-configuration"),
]


@pytest.mark.parametrize("one", NOTHING)
def test_nothing_is_expected_of_other_nodes(one: Node) -> None:
    assert coming(one) is None


def test_strategy_single_counts_instances_as_gpus() -> None:
    found = coming(node(gpus=2, labels=fresh("all-1g.10gb", "pending", **{STRATEGY: "single"})))

    assert found is not None
    assert (found.gpu_count, found.single_profile) == (14, "1g.10gb")


def test_taints_of_a_restart_are_expected_to_go() -> None:
    taints = ["node.kubernetes.io/unreachable=:NoExecute", "team=a:NoSchedule"]
    found = coming(node(gpus=2, labels=fresh("all-1g.10gb", "rebooting"), taints=taints))

    assert found is not None
    assert [one.key for one in found.taints] == ["team"]


def test_node_without_mig_manager_is_expected_as_it_is_after_the_wait() -> None:
    state = cluster(node(gpus=2, labels=A100 | {WANTED: "all-1g.10gb"}))
    assert list(state.nodes.coming.nodes) == ["n1"]

    state.nodes.settle("n1")

    assert state.nodes.coming.nodes == {}


def test_deleted_node_is_not_expected() -> None:
    state = cluster(node(gpus=2, labels=fresh("all-1g.10gb")))
    state.delete_node("n1")

    assert state.nodes.coming.nodes == ComingLayouts().nodes


def test_node_whose_driver_serves_dra_is_not_expected() -> None:
    state = cluster(node(gpus=2, labels=fresh("all-1g.10gb")))
    fold(state, ev.DraUpdated(resource_slice("n1", "gpu-0", driver="gpu.nvidia.com")))

    assert state.nodes.coming.nodes == {}
