"""Leader election as a pure question: what to do with the lease as it was just read."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model.lease import Lease, Step, next_step

ME, OTHER = "me_1", "other_1"


def lease(holder: str | None, duration_s: int | None = 15) -> Lease:
    wire = {
        "metadata": {"name": "gpu-scheduler", "namespace": "system"},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": duration_s},
    }
    return msgspec.json.decode(msgspec.json.encode(wire), type=Lease)


STEPS = [
    pytest.param(None, 0.0, Step.CREATE, id="there-is-none"),
    pytest.param(lease(ME), 0.0, Step.RENEW, id="mine"),
    pytest.param(lease(ME), 999.0, Step.RENEW, id="mine-although-it-ran-out"),
    pytest.param(lease(OTHER), 0.0, Step.WAIT, id="held-by-another"),
    pytest.param(lease(OTHER), 14.9, Step.WAIT, id="not-run-out-yet"),
    pytest.param(lease(OTHER), 15.0, Step.ACQUIRE, id="run-out-on-our-clock"),
    pytest.param(lease(OTHER, 2), 3.0, Step.ACQUIRE, id="its-own-duration-counts"),
    pytest.param(lease(OTHER, 60), 30.0, Step.WAIT, id="a-longer-one-than-ours"),
    pytest.param(lease(OTHER, None), 14.9, Step.WAIT, id="no-duration-means-ours"),
    pytest.param(lease(OTHER, None), 15.0, Step.ACQUIRE, id="no-duration-run-out"),
    pytest.param(lease(""), 0.0, Step.ACQUIRE, id="released"),
    pytest.param(lease(None), 0.0, Step.ACQUIRE, id="never-held"),
    pytest.param(lease("me_2"), 0.0, Step.WAIT, id="former-process-is-another-holder"),
]


@pytest.mark.contract("S2-B12")
@pytest.mark.parametrize(("found", "unchanged_s", "step"), STEPS)
def test_next_election_step(found: Lease | None, unchanged_s: float, step: Step) -> None:
    assert next_step(found, ME, unchanged_s, 15.0) is step
