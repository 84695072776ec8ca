"""The real structured allocator accepts what we allocate, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.model.dra.allocation import Allocation, DeviceResult
from scheduler.model.node import Node
from scheduler.state.dra.store import DraStore
from tests.differential import recordings
from tests.differential.dra import acceptor
from tests.differential.dra.acceptor import Acceptor
from tests.differential.dra.allocations import NewAllocation
from tests.differential.manifests import key_of
from tests.differential.replay import replay
from tests.dra import (
    DRIVER,
    allocation_json,
    claim_json,
    class_json,
    device_json,
    request_json,
    resource_claim,
    resource_slice,
    result_json,
    slice_json,
)

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]

BROKEN = device_json("broken", taints=[{"key": "broken", "effect": "NoSchedule"}])
DEVICES = ("free", "used", BROKEN)
REQUEST = request_json(count=1)


@pytest.fixture(name="real", scope="module")
def _real() -> Iterator[Acceptor]:
    with acceptor.running() as found:
        yield found


def given(*names: str, request: str = "gpu", **more: Any) -> Allocation:
    """An allocation of devices of the node n1."""
    return Allocation(
        results=tuple(
            DeviceResult(request=request, driver=DRIVER, pool="n1", device=name, **more)
            for name in names
        )
    )


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        pytest.param(given("free"), "", id="free"),
        pytest.param(given("used"), "the allocator finds nothing", id="in-use"),
        pytest.param(given("broken"), "the allocator finds nothing", id="tainted"),
        pytest.param(given("absent"), "the allocator finds nothing", id="not-published"),
        pytest.param(given("free", request="other"), "the allocator finds nothing", id="request"),
        pytest.param(given("free", "free"), "not gpu=", id="twice"),
        pytest.param(given("free", is_shared=True, consumed={"memory": 1}), "not gpu=", id="share"),
    ],
)
def test_what_the_real_allocator_accepts(real: Acceptor, found: Allocation, problem: str) -> None:
    store = DraStore()
    store.upsert(resource_slice("n1", *DEVICES))
    used = claim_json("used", allocation=allocation_json(result_json("used")), users=["p"])
    objects = {
        ("nodes", "n1"): {"metadata": {"name": "n1"}},
        ("resourceslices", "n1"): slice_json("n1", *DEVICES),
        ("deviceclasses", "gpu"): class_json(),
        **{("resourceclaims", key_of(one)): one for one in (used, claim_json("gpu", REQUEST))},
    }
    new = NewAllocation(Node(name="n1"), (resource_claim("gpu", REQUEST),), (found,))
    assert problem in real.problem(store, objects, new)
    assert bool(real.problem(store, objects, new)) is bool(problem)


def test_real_allocator_accepts_what_we_allocate(real: Acceptor) -> None:
    asked = real.asked
    assert {replay(one, real) for one in recordings.of_kind("claims")} == {""}
    assert real.asked - asked > 3000
