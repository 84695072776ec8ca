"""Which free units a container is given: those chosen for it, else where the fewest are taken."""

from __future__ import annotations

from typing import Any

import pytest

from fakegpu.node.advertised_devices import units
from fakegpu.node.pod_devices import Need, PodUse
from fakegpu.node.preferred_allocation import Ask, Known, preferred, refusal
from fakegpu.topology.node_topology import NodeTopology
from scheduler.model.gpu.device import Devices, MigPlacement
from tests.unit.fakegpu.nodes import GPU, H200, fake, slicing, use

FOUR = f"{H200}, gpuCount: 4"
MIG_1G = "nvidia.com/mig-1g.10gb"
NO_PODS = Known()


def chosen(name: str, *numbers: int, **more: Any) -> PodUse:
    """A pod for which the scheduler chose these GPUs."""
    told = {"gpus": len(numbers), "chosen": Devices(numbers=numbers), **more}
    return use(name, **told)


def known(*pods: str, allocation: tuple[tuple[str, str], ...] = ()) -> Known:
    """The kubelet has taken in these pods; these containers hold units already."""
    return Known(
        frozenset(("team", name) for name in pods),
        frozenset(("team", name, container) for name, container in allocation),
    )


def given(
    found: NodeTopology,
    pods: list[PodUse],
    kubelet: Known = NO_PODS,
    *,
    count: int = 1,
    resource: str = GPU,
    free: set[int] | None = None,
    must: tuple[int, ...] = (),
) -> list[int]:
    """Numbers of the units in the resource's order; by default all are free."""
    ids = [unit.id for unit in units(found)[resource]]
    available = tuple(one for at, one in enumerate(ids) if free is None or at in free)
    ask = Ask(
        resource=resource, count=count, available=available, must=tuple(ids[at] for at in must)
    )
    return [ids.index(one) for one in preferred(found, ask, pods, kubelet)]


@pytest.mark.parametrize(
    ("pods", "kubelet", "count", "expected"),
    [
        pytest.param([chosen("a", 3, 1)], known("a"), 2, [3, 1], id="its-choice"),
        pytest.param(
            [chosen("a", 3)], NO_PODS, 1, [3], id="the-only-choice-if-the-kubelet-is-silent"
        ),
        pytest.param(
            [chosen("a", 3), chosen("b", 2)], known("b"), 1, [2], id="admitted-by-the-kubelet"
        ),
        pytest.param(
            [chosen("a", 3), chosen("b", 2)],
            known("a", "b", allocation=(("a", "c"),)),
            1,
            [2],
            id="a-pod-with-its-units-is-not-the-requester",
        ),
        pytest.param(
            [chosen("a", 3), chosen("b", 2)], NO_PODS, 1, [0], id="unclear-so-an-unchosen-gpu"
        ),
        pytest.param(
            [chosen("a", 3, 2), use("b", gpus=1)], known("b"), 1, [0], id="a-pod-without-a-choice"
        ),
        pytest.param(
            [chosen("a", 0, 1), use("b", gpus=1)], known("b"), 1, [2], id="others-choices-are-left"
        ),
        pytest.param(
            [chosen("a", 0, 1, 2), use("b", gpus=2)],
            known("b"),
            2,
            [3, 0],
            id="taken-if-there-is-nothing-else",
        ),
        pytest.param([], NO_PODS, 3, [0, 1, 2], id="by-index"),
    ],
)
def test_the_asker_gets_what_was_chosen_for_it(
    pods: list[PodUse], kubelet: Known, count: int, expected: list[int]
) -> None:
    assert given(fake(FOUR), pods, kubelet, count=count) == expected


def test_a_choice_that_is_not_free_any_more_is_no_choice() -> None:
    assert given(fake(FOUR), [chosen("a", 3)], known("a"), free={0, 2}) == [0]


def test_devices_that_the_kubelet_requires_are_part_of_the_choice() -> None:
    """A container that starts again keeps its units."""
    pods = [chosen("a", 3, 1)]
    assert given(fake(FOUR), pods, known("a"), count=2, must=(1,)) == [3, 1]
    assert given(fake(FOUR), pods, known("a"), count=2, must=(2,)) == [2, 0]


def test_containers_of_one_pod_get_their_shares_in_order() -> None:
    """The first two indexes belong to the first container, which keeps them."""
    needs = (Need("one", GPU, 2), Need("two", GPU, 1))
    pod = chosen("a", 3, 1, 0, needs=needs)
    assert given(fake(FOUR), [pod], known("a"), count=2) == [3, 1]
    allocation = known("a", allocation=(("a", "one"),))
    assert given(fake(FOUR), [pod], allocation, count=1, free={0, 2}) == [0]


def test_an_instance_is_given_where_it_was_chosen() -> None:
    found = fake(f"{H200}, gpuCount: 1, mig: {{mig-devices: {{1g.10gb: 7}}}}")
    pod = use("a", resource=MIG_1G, chosen=Devices(mig_placements=(MigPlacement(0, 5, "1g.10gb"),)))
    assert given(found, [pod], known("a"), resource=MIG_1G) == [5]


def test_shares_of_a_gpu_are_handed_out_evenly() -> None:
    """Each next one from the GPU of which the fewest are taken; units are ordered by share."""
    found = fake(f"{H200}, gpuCount: 2", sharing=slicing(3))
    free = set(range(6))
    taken = []
    for _ in range(6):
        (unit,) = given(found, [], free=free)
        free.remove(unit)
        taken.append(unit % 2)
    assert taken == [0, 1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("more", "resource", "count", "is_refused"),
    [
        pytest.param("failRequestsGreaterThanOne: true, ", GPU, 2, True, id="two"),
        pytest.param("failRequestsGreaterThanOne: true, ", GPU, 1, False, id="one"),
        pytest.param("failRequestsGreaterThanOne: true, ", "rdma/hca", 2, False, id="not-shared"),
        pytest.param("", GPU, 2, False, id="not-said"),
    ],
)
def test_more_than_one_share_is_refused_where_the_file_says_so(
    more: str, resource: str, count: int, is_refused: bool
) -> None:
    found = fake(FOUR, sharing=slicing(2, more=more))
    assert bool(refusal(found, resource, count)) is is_refused
