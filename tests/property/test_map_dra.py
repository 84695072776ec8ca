"""Random histories of mapped and other pods on nodes with DRA devices.

No device is held twice, whatever asks for it: a request, a claim or a map. A mapped pod has exactly
the devices of its line, and none without a claim.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.decision import Placement
from scheduler.model.dra.allocation import Allocation
from scheduler.model.dra.claim import ResourceClaim
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Assumption, Cluster
from scheduler.state.fold import fold
from tests.allocation_check import held_twice
from tests.builders import ALLOW_ALL_MAPS, cluster, node, pod
from tests.dra import claiming, request_json, resource_claim, resource_slice
from tests.dra_gpus import DISCOVERED, EVERY_GPU, NVIDIA, gpu

NODES = ("n1", "n2")
GPUS = 4
Permutation = tuple[int, ...]
LINE = st.lists(st.integers(0, GPUS - 1), min_size=1, max_size=3, unique=True).map(tuple)


def bus(place: int) -> str:
    """The PCI bus id of the card with this index."""
    return f"0000:{16 * place + 7:02x}:00.0"


class History:
    """A cluster, and what its living pods hold; ``minors`` has the minor of each index by node."""

    def __init__(self, minors: dict[str, Permutation]) -> None:
        self.minors = minors
        slices = [
            resource_slice(
                name,
                *(gpu(minor, bus(index)) for index, minor in enumerate(order)),
                driver=NVIDIA,
            )
            for name, order in minors.items()
        ]
        nodes = [node(name, labels=DISCOVERED) for name in NODES]
        self.state: Cluster = cluster(*nodes, *slices, EVERY_GPU)
        self.count = 0
        #: Uid -> the placement, before anything of it is written.
        self.assumed: dict[str, Placement] = {}
        #: Uid -> the claim as the API server has it.
        self.bound: dict[str, tuple[str, ResourceClaim]] = {}

    def ask(self, kind: str, where: str, line: tuple[int, ...]) -> None:
        """A pod asks for devices: by a map or a claim of its own, by both, or by a request."""
        self.count += 1
        name, number = f"w-{self.count}", len(line)
        fields: dict[str, Any] = {}
        if kind.startswith("mapped"):
            fields["map"] = f"{self.count}={where}:{','.join(map(str, line))}"
        if kind.endswith("request"):
            fields["gpus"] = number
        if kind.endswith("claim"):
            claim = resource_claim(name, request_json("gpu", NVIDIA, count=number))
            fold(self.state, ev.DraUpdated(claim))
            fields["spec"] = claiming(name)
        newcomer = pod(name, **fields)
        self.state.upsert_pod(newcomer)
        self.state.update_devices()
        found = schedule_one(self.state, newcomer, ALLOW_ALL_MAPS)
        if not isinstance(found, Placement):
            return
        assert kind != "mapped", "a mapped pod without a claim has no device here"
        assumption = Assumption(found.node_name, found.devices, found.index, claims=found.claims)
        self.state.assume(newcomer, assumption)
        self.assumed[newcomer.uid] = found
        if kind.startswith("mapped"):
            order = self.minors[where]
            expected = {f"gpu-{order[index]}" for index in line}
            assert {one.device for one in _allocation(found).results} == expected
            assert found.devices.numbers == line

    def write(self, uid: str) -> None:
        """The claim is allocated, and the pod is bound."""
        found = self.assumed.pop(uid)
        claim = resource_claim(f"{uid}-x", version="2", owner=uid, extended=True)
        if found.claims is not None and found.claims.claims:
            claim = resource_claim(found.pod.name, version="2")
        fields = {name: getattr(claim, name) for name in claim.__struct_fields__}
        written = ResourceClaim(**{**fields, "allocation": _allocation(found)})
        fold(self.state, ev.DraUpdated(written))
        self.bound[uid] = (found.node_name, written)

    def end(self, uid: str) -> None:
        """The pod and its claim are gone."""
        _, claim = self.bound.pop(uid)
        fold(self.state, ev.PodDeleted(uid))
        fold(self.state, ev.DraDeleted(type(claim), claim.key))

    def give_up(self, uid: str) -> None:
        """The placement is taken back."""
        del self.assumed[uid]
        self.state.forget(uid)

    def check(self) -> None:
        """No device is held twice."""
        allocations = [_allocation(one) for one in self.assumed.values()]
        allocations += [one.allocation for _, one in self.bound.values() if one.allocation]
        assert held_twice(allocations) == set()


def _allocation(found: Placement) -> Allocation:
    """What a pod with one claim gets."""
    assert found.claims is not None
    if found.claims.extended is not None:
        return found.claims.extended.allocation
    [planned] = found.claims.claims
    assert planned.allocation is not None
    return planned.allocation


KINDS = ("mapped", "mapped-request", "mapped-claim", "request", "claim")
STEP = st.tuples(
    st.sampled_from((*KINDS, *KINDS, "write", "end", "give-up")),
    st.sampled_from(NODES),
    LINE,
    st.integers(0, 7),
)


@given(
    orders=st.tuples(*[st.permutations(range(GPUS)).map(tuple)] * 2),
    steps=st.lists(STEP, max_size=25),
)
def test_no_device_is_held_twice_with_maps_requests_and_claims(
    orders: tuple[Permutation, Permutation],
    steps: list[tuple[str, str, tuple[int, ...], int]],
) -> None:
    history = History(dict(zip(NODES, orders, strict=True)))
    for step, where, line, at in steps:
        assumed, bound = sorted(history.assumed), sorted(history.bound)
        match step:
            case "write" if assumed:
                history.write(assumed[at % len(assumed)])
            case "give-up" if assumed:
                history.give_up(assumed[at % len(assumed)])
            case "end" if bound:
                history.end(bound[at % len(bound)])
            case _ if step in KINDS:
                history.ask(step, where, line)
        history.check()
