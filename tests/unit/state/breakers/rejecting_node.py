"""A node n1 that admits pods or rejects them, as the breaker sees it."""

from __future__ import annotations

from scheduler.model.pods.pod import Pod
from scheduler.state.breakers.circuit import Timings
from scheduler.state.breakers.kubelet_rejection import covers
from scheduler.state.breakers.node_circuit_breaker import NodeCircuitBreaker, TripEvent
from tests.builders import pod

NOW = 1000.0
TIMINGS = Timings()
ONE = pod("a", gpus=1, requests={"cpu": "1"})
OUT_OF_GPU = "OutOfnvidia.com/gpu"
UNEXPECTED = "UnexpectedAdmissionError"
#: What NVIDIA's device plugin says through the kubelet where it refuses more than one shared GPU.
ONE_IS_THE_MOST = (
    "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid allocation"
    ' request for "nvidia.com/gpu": invalid request: maximum request size for shared resources is'
    " 1; found 2, which is unexpected"
)


def bounce(
    breaker: NodeCircuitBreaker,
    reason: str = OUT_OF_GPU,
    now: float = NOW,
    message: str = "",
    one: Pod = ONE,
) -> TripEvent | None:
    """One pod is sent to n1 and refused there."""
    breaker.record_binding(one, "n1", now)
    return breaker.record_rejection(one.uid, reason, message, now)


def run(breaker: NodeCircuitBreaker, one: Pod, now: float = NOW) -> None:
    """One pod is sent to n1 and admitted there."""
    breaker.record_binding(one, "n1", now)
    breaker.record_admission(one.uid, now)


def tripped(reason: str = OUT_OF_GPU, message: str = "", one: Pod = ONE) -> NodeCircuitBreaker:
    breaker = NodeCircuitBreaker()
    for _ in range(2):
        assert bounce(breaker, reason, message=message, one=one) is None
    assert bounce(breaker, reason, message=message, one=one) is not None
    return breaker


def closed_to(breaker: NodeCircuitBreaker, one: Pod, now: float = NOW) -> bool:
    """Whether a pod avoids n1."""
    return any(covers(scope, one) for scope in breaker.avoided("n1", now))
