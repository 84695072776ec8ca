"""What an admission says of the nodes in a pod's map, and whether the pod has to request GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.decide.admission.admit import Admission, Rules, admit
from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, NodeAssignment
from scheduler.plugins import default_pipeline
from scheduler.state.reservations import Reservations
from tests.builders import ALLOW_ALL_MAPS, PodFields, cluster, container, node, pod
from tests.dra import claiming
from tests.dra_gpus import on_dra


def review(fields: PodFields, *, is_allowed: bool = True, name: str = "w-0") -> AdmissionDecision:
    """The answer about a pod, with DRA nodes and one node without a plugin."""
    state = cluster(*on_dra("n1"), *on_dra("n2")[:2], node("plain"))
    pipeline = ALLOW_ALL_MAPS if is_allowed else default_pipeline()
    rules = Rules(pipeline=pipeline)
    found: Admission = admit(state, Reservations(), (), pod(name, **fields), "ours", rules)
    return found.answer


def test_a_node_with_dra_devices_is_told() -> None:
    """An older webhook reads the kind alone, and injects nothing."""
    assert review({"map": "0=n1:0\n1=plain:0\n2=gone:0"}).node_kinds == {
        "n1": NodeAssignment("n1", "counted", dra=True),
        "plain": NodeAssignment("plain", "numbered"),
        "gone": NodeAssignment(),
    }


REQUESTS: list[Any] = [
    pytest.param({"map": "0=n1:2,0"}, 2, id="the-count-of-its-line"),
    pytest.param({"map": "0=n1:2,0\n1=plain:1"}, 2, id="other-lines-do-not-count"),
    pytest.param({"map": "0=plain:0"}, 0, id="a-node-without-dra"),
    pytest.param({"map": "1=n1:0"}, 0, id="no-line-for-its-index"),
    pytest.param({"map": "0=n1"}, 0, id="an-invalid-map"),
    pytest.param({}, 0, id="no-map"),
    pytest.param({"map": "0=n1:0", "gpus": 1}, 0, id="it-requests-gpus"),
    pytest.param({"map": "0=n1:0", "mig": {"1g.10gb": 1}}, 0, id="it-requests-mig"),
    pytest.param({"map": "0=n1:0", "spec": claiming("own")}, 0, id="it-has-claims"),
    pytest.param(
        {"map": "0=n1:0", "requests": {f"{well_known.DRA_PREFIX}gpu.nvidia.com": 1}},
        0,
        id="it-requests-a-class",
    ),
    pytest.param({"map": "0=n1:0", "node": "n1"}, 0, id="it-has-a-node"),
    pytest.param({"map": "0=n1:0", "scheduler": "other"}, 0, id="of-another-scheduler"),
    pytest.param(
        {"map": "0=n1:0\n1=n2:1", "owner": "ReplicaSet/rs"}, 1, id="any-line-of-one-count"
    ),
    pytest.param({"map": "0=n1:0\n1=n2:1,2", "owner": "ReplicaSet/rs"}, 0, id="of-several-counts"),
    pytest.param({"map": "0=n1:0\n1=plain:1", "owner": "ReplicaSet/rs"}, 0, id="of-other-nodes"),
    pytest.param(
        {"map": "0=n1:0", "containers": [container("a"), container("b")]}, 1, id="two-containers"
    ),
]


@pytest.mark.parametrize(("fields", "count"), REQUESTS)
def test_a_mapped_pod_without_a_request_gets_one_on_dra_nodes(
    fields: PodFields, count: int
) -> None:
    assert review(fields).map_request == count


def test_a_namespace_that_may_not_map_gets_no_request() -> None:
    answer = review({"map": "0=n1:0"}, is_allowed=False)

    assert (answer.map_request, answer.may_map) == (0, False)
