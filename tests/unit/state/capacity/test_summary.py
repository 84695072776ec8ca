"""Sums over nodes: room by model and size of job, and what each namespace holds."""

from __future__ import annotations

from typing import Any

from scheduler.model.quota import Quota
from scheduler.state.capacity.node_devices import DeviceAmount, devices_of
from scheduler.state.capacity.summary import CapacitySummary, QuotaUse
from tests.builders import cluster, dynamic, node, pod

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


def summed(*objects: Any) -> CapacitySummary:
    """The sums of a cluster's nodes."""
    state = cluster(*objects)
    summary = CapacitySummary()
    for node_info in state.candidates():
        summary.add_node(devices_of(node_info, state.dra))
    return summary


def test_room_is_counted_for_each_size_of_job_on_one_node() -> None:
    [model] = summed(
        node("n1", gpus=8, labels=H100),
        node("n2", gpus=8, labels=H100),
        pod("a", gpus=3, node="n1"),
        pod("b", gpus=1, node="n2"),
    ).models()

    assert (model.product, model.memory_mib, model.nodes) == ("NVIDIA-H100-80GB-HBM3", 81559, 2)
    assert model.devices == {"gpu": DeviceAmount(16, 4, 12)}
    assert model.fits == {"8": 0, "4": 2, "2": 5, "1": 12}
    assert (model.largest, model.largest_node) == (7, "n2")


def test_models_are_apart_and_the_largest_slice_is_named() -> None:
    whole, sliced = summed(node("n1", gpus=40, labels=H100), dynamic("n2", gpus=1)).models()

    assert (whole.product, whole.largest_slice) == ("NVIDIA-H100-80GB-HBM3", "")
    assert (sliced.product, sliced.largest_slice) == ("NVIDIA-A100-SXM4-80GB", "7g.80gb")
    assert sliced.fits == {}


def test_namespace_has_what_it_holds_waits_for_and_may_use() -> None:
    summary = summed(
        node("n1", gpus=8),
        pod("a", gpus=3, node="n1"),
        pod("b", gpus=1, node="n1"),
        pod("c", gpus=1, node="n1", namespace="research"),
    )
    summary.add_waiting("team", {"gpu": 8}, 5.0)
    summary.add_waiting("team", {"gpu": 1}, 9.0)
    quota = Quota(
        namespace="empty", name="q", hard={"nvidia.com/gpu": 2}, used={"nvidia.com/gpu": 1}
    )

    team, research, empty = summary.namespaces([quota])[:3]

    assert (team.namespace, team.pods, team.devices) == ("team", 2, {"gpu": 4})
    assert (team.waiting_pods, team.waiting_devices) == (2, {"gpu": 9})
    assert team.oldest_wait_s == 9.0
    assert (research.namespace, research.devices) == ("research", {"gpu": 1})
    assert empty.quotas == (QuotaUse(quota="q", device="gpu", used=1, hard=2),)
