"""Best fit takes the devices with the least loss."""

from __future__ import annotations

import pytest

from scheduler.model.dra.claim import ResourceClaim
from scheduler.plugins.dynamic_resources.allocation.taken_devices import NoAllocation
from tests.dra import (
    allocation_json,
    device_json,
    request_json,
    resource_claim,
    resource_slice,
    result_json,
)
from tests.unit.plugins.dynamic_resources.claim_world import (
    given,
    mig_card,
    selecting,
    store,
    whole_gpu,
)

GPUS = [whole_gpu("gpu-0", 0), whole_gpu("gpu-1", 0), whole_gpu("gpu-2", 1), whole_gpu("gpu-3", 1)]


def used(*names: str) -> ResourceClaim:
    """A claim that has these devices."""
    return resource_claim("used", allocation=allocation_json(*map(result_json, names)))


@pytest.mark.parametrize(
    ("profile", "before", "expected"),
    [
        pytest.param("2g.20gb", [], "0-2g.20gb-4", id="beside-a-later-4g"),
        pytest.param("1g.10gb", ["0-2g.20gb-4"], "0-1g.10gb-6", id="into-the-gap"),
        pytest.param("3g.40gb", [], "0-3g.40gb-4", id="half"),
    ],
)
def test_a_partition_goes_where_the_layout_loses_least(
    profile: str, before: list[str], expected: str
) -> None:
    state = store(*mig_card())
    if before:
        state.upsert(used(*before))
    claim = resource_claim("mig", request_json(**selecting(profile)))

    assert given(state, claim) == [[expected]]
    assert given(state, claim, best=False) != [[expected]]


def test_partitions_fill_a_card_before_another_one_is_begun() -> None:
    state = store(*mig_card(cards=2), used("1-2g.20gb-4"))

    assert given(state, resource_claim("mig", request_json(**selecting("1g.10gb")))) == [
        ["1-1g.10gb-6"]
    ]


def test_partitions_of_one_pod_see_each_other() -> None:
    state = store(*mig_card())
    some = [resource_claim(f"c{at}", request_json(**selecting("3g.40gb"))) for at in range(2)]

    found = given(state, *some)

    assert found == [["0-3g.40gb-4"], ["0-3g.40gb-0"]]


def test_one_gpu_comes_from_the_numa_node_with_fewer_free_ones() -> None:
    state = store(resource_slice("n1", *GPUS), used("gpu-3"))

    assert given(state, resource_claim()) == [["gpu-2"]]
    assert given(state, resource_claim(), best=False) == [["gpu-0"]]


@pytest.mark.contract("S4-21")
def test_two_gpus_come_from_one_numa_node() -> None:
    state = store(resource_slice("n1", *GPUS), used("gpu-0"))

    assert given(state, resource_claim("gpu", request_json(count=2))) == [["gpu-2", "gpu-3"]]


def test_two_gpus_come_from_one_pcie_root_of_a_numa_node() -> None:
    gpus = [
        whole_gpu("gpu-0", 0, "a"),
        whole_gpu("gpu-1", 0, "b"),
        whole_gpu("gpu-2", 0, "b"),
        whole_gpu("gpu-3", 0, "c"),
    ]
    state = store(resource_slice("n1", *gpus))

    assert given(state, resource_claim("gpu", request_json(count=2))) == [["gpu-1", "gpu-2"]]


def test_a_share_comes_from_the_device_that_is_shared_most() -> None:
    shared = [
        device_json(name, allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}})
        for name in ("gpu-0", "gpu-1")
    ]
    share = result_json("gpu-1", shareID="x", consumedCapacity={"memory": "2Gi"})
    state = store(
        resource_slice("n1", *shared), resource_claim("used", allocation=allocation_json(share))
    )
    asked = request_json(capacity={"requests": {"memory": "1Gi"}})

    assert given(state, resource_claim("gpu", asked)) == [["gpu-1"]]


@pytest.mark.parametrize("best", [True, False])
def test_a_device_with_shares_is_not_given_whole(best: bool) -> None:
    """Difference D9: its driver has stopped to share it; kube-scheduler gives it to two claims."""
    share = result_json("gpu-0", shareID="x", consumedCapacity={"memory": "2Gi"})
    other = resource_claim("used", allocation=allocation_json(share))

    assert given(store(resource_slice("n1", "gpu-0")), resource_claim(), best=best) == [["gpu-0"]]
    found = given(store(resource_slice("n1", "gpu-0"), other), resource_claim(), best=best)
    assert isinstance(found, NoAllocation)


def test_a_selector_may_fail_on_a_device_that_is_not_needed() -> None:
    plain, sized = device_json("a"), device_json("b", attributes={"size": {"int": 1}})
    text = 'device.attributes["gpu.example.com"].size == 1'
    claim = resource_claim("gpu", request_json(selectors=[{"cel": {"expression": text}}]))

    assert given(store(resource_slice("n1", plain, sized)), claim) == [["b"]]
