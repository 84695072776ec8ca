"""What pods request and hold, and what a node has for them (kube-scheduler: noderesources/fit)."""

from __future__ import annotations

import pytest

from scheduler.model import quantity
from scheduler.model.quantity import QuantityError
from scheduler.model.reasons.reason import sentence
from scheduler.state import event as ev
from tests.builders import GPU, cluster, container, node, placed, pod, refused
from tests.scheduler_world import SchedulerWorld
from tests.unit.plugins.preemption.scene import OWN, rejection, running


def test_case_18_init_containers_raise_the_maximum_only() -> None:
    newcomer = pod(
        containers=[container(gpus=1), container("b", gpus=1)], init=[container("prep", gpus=3)]
    )

    assert placed(cluster(node("three", gpus=3)), newcomer).node_name == "three"
    assert "Insufficient nvidia.com/gpu (need 3; best node has 2" in sentence(
        refused(cluster(node("two", gpus=2)), newcomer).diagnosis
    )


def test_case_19_sidecar_counts_beside_a_later_init_container() -> None:
    newcomer = pod(
        containers=[container(requests={"cpu": "1"})],
        init=[
            container("log", requests={"cpu": "1"}, sidecar=True),
            container("prep", requests={"cpu": "2"}),
        ],
    )

    assert placed(cluster(node("three", cpu="3")), newcomer).node_name == "three"
    refused(cluster(node("less", cpu="2999m")), newcomer)


def test_case_20_overhead_is_added_to_the_pod_level_request() -> None:
    newcomer = pod(
        spec={"resources": {"requests": {"cpu": "1"}}, "overhead": {"cpu": "250m"}},
        requests={"cpu": "4"},
    )

    assert placed(cluster(node("enough", cpu="1250m")), newcomer).node_name == "enough"
    refused(cluster(node("less", cpu="1249m")), newcomer)


def test_case_21_more_than_allocatable_is_not_resolved_by_preemption() -> None:
    state = cluster(
        node("seven", gpus=7, capacity={GPU: "8"}),
        node("eight", gpus=8),
        running("low", on="seven", gpus=7),
        running("high", on="eight", gpus=8, priority=9),
    )

    found = rejection(state, pod("p", gpus=8, priority=9), OWN)

    resolvable = {name: reasons[0].resolvable for name, reasons in found.diagnosis.nodes.items()}
    assert resolvable == {"seven": False, "eight": True}
    assert sentence(found.diagnosis).endswith(
        " preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod,"
        " 1 Preemption is not helpful for scheduling."
    )


def test_case_22_pod_without_requests_counts_for_the_pods_of_a_node() -> None:
    state = cluster(node("n1", pods=1), pod("first", node="n1"))

    assert sentence(refused(state, pod("second")).diagnosis) == (
        "0/1 nodes are available: 1 Too many pods."
    )


@pytest.mark.parametrize(
    ("reason", "fits"),
    [pytest.param("Deferred", False, id="deferred"), pytest.param("Infeasible", True, id="never")],
)
def test_case_23_a_resize_holds_its_request_unless_it_is_infeasible(
    reason: str, fits: bool
) -> None:
    status = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "containerStatuses": [{"name": "app", "allocatedResources": {"cpu": "1"}}],
    }
    growing = pod("growing", node="n1", requests={"cpu": "3"}, status=status, phase="Running")
    state, newcomer = cluster(node("n1", cpu="4"), growing), pod("p", requests={"cpu": "2"})

    if fits:
        assert placed(state, newcomer).node_name == "n1"
    else:
        refused(state, newcomer)


def test_case_24_a_terminating_pod_holds_its_gpu_until_it_is_gone() -> None:
    world = SchedulerWorld(node("n1", gpus=1), pod("old", gpus=1, node="n1"))
    world.deliver(ev.PodUpdated(pod("old", gpus=1, node="n1", deleting=True)))
    world.deliver(ev.PodUpdated(pod("new", gpus=1)))
    world.decide_due()
    assert world.cluster.pods["team-new"].node_name == ""

    world.deliver(ev.PodDeleted("team-old"))
    world.now += 1
    world.decide_due()

    assert world.cluster.pods["team-new"].node_name == "n1"


@pytest.mark.parametrize(
    ("text", "units", "milli"),
    [
        pytest.param("1.5Gi", 1_610_612_736, 1_610_612_736_000, id="1.5Gi"),
        pytest.param("1e3", 1000, 1_000_000, id="1e3"),
        pytest.param("100m", 1, 100, id="100m"),
        pytest.param(".5", 1, 500, id="half"),
        pytest.param("0.1", 1, 100, id="0.1"),
        pytest.param("1Ki", 1024, 1_024_000, id="1Ki"),
    ],
)
def test_case_25_quantities_are_exact(text: str, units: int, milli: int) -> None:
    assert (quantity.value(text), quantity.milli_value(text)) == (units, milli)


def test_case_25_a_capital_k_is_refused() -> None:
    with pytest.raises(QuantityError):
        quantity.value("1K")


def test_case_26_node_without_its_device_plugin_takes_cpu_pods_only() -> None:
    state = cluster(node("n1", gpus=4), pod("a", gpus=2, node="n1"))
    state.upsert_node(node("n1", gpus=0))

    assert placed(state, pod("cpu", requests={"cpu": "1"})).node_name == "n1"
    assert "Insufficient nvidia.com/gpu" in sentence(refused(state, pod("gpu", gpus=1)).diagnosis)
