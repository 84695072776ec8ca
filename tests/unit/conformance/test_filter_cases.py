"""Node filters: cordons, taints, tolerations, node affinity and host ports."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import cluster, node, placed, pod
from tests.unit.conformance.feasible import feasible

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_terms(*terms: Json) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def test_case_28_only_toleration_of_the_cordon_passes_a_cordoned_node() -> None:
    state = cluster(node("n1", cordoned=True))
    tolerant = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}

    assert feasible(state, pod()) == set()
    assert feasible(state, pod(tolerations=[tolerant])) == {"n1"}


def test_case_29_no_execute_rejects_prefer_no_schedule_only_scores() -> None:
    state = cluster(
        node("evicts", taints=["gpu:NoExecute"]),
        node("avoids", taints=["gpu:PreferNoSchedule"], cpu="64"),
        node("plain", cpu="2"),
    )

    assert feasible(state, pod()) == {"avoids", "plain"}
    assert placed(state, pod()).node_name == "plain"


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param({"operator": "Exists"}, True, id="exists-without-key"),
        pytest.param({"key": "gpu", "operator": "Equal", "value": ""}, False, id="empty-value"),
        pytest.param({"key": "gpu", "operator": "Equal", "value": "x"}, True, id="equal-value"),
    ],
)
def test_case_30_which_toleration_tolerates_a_value(toleration: Json, tolerated: bool) -> None:
    state = cluster(node("n1", taints=["gpu=x:NoSchedule"]))

    assert bool(feasible(state, pod(tolerations=[toleration]))) is tolerated


def test_case_31_an_empty_term_matches_no_node_and_terms_are_or() -> None:
    state = cluster(*(node(name, labels={"zone": name}) for name in ("a", "b", "c")))
    in_a, in_b = expression("zone", "In", "a"), expression("zone", "In", "b")

    assert feasible(state, pod(spec=node_terms({}))) == set()
    assert feasible(state, pod(spec=node_terms({}, in_b))) == {"b"}
    assert feasible(state, pod(spec=node_terms(in_a, in_b))) == {"a", "b"}


def test_case_32_gt_compares_whole_numbers() -> None:
    state = cluster(
        node("five", labels={"level": "05"}),
        node("six", labels={"level": "6"}),
        node("word", labels={"level": "abc"}),
        node("bare"),
    )

    assert feasible(state, pod(spec=node_terms(expression("level", "Gt", "5")))) == {"six"}
    assert feasible(state, pod(spec=node_terms(expression("level", "Gt", "4")))) == {"five", "six"}


@pytest.mark.parametrize(
    ("ip", "protocol", "fits"),
    [
        pytest.param("127.0.0.2", "TCP", True, id="another-address"),
        pytest.param("127.0.0.1", "TCP", False, id="same-address"),
        pytest.param("0.0.0.0", "TCP", False, id="every-address"),  # noqa: S104 - of a pod
        pytest.param("0.0.0.0", "UDP", True, id="another-protocol"),  # noqa: S104 - of a pod
    ],
)
def test_case_33_host_ports_conflict_by_address_and_protocol(
    ip: str, protocol: str, fits: bool
) -> None:
    held = {"containerPort": 80, "hostPort": 80, "hostIP": "127.0.0.1", "protocol": "TCP"}
    state = cluster(node("n1"), pod("old", node="n1", ports=[held]))
    wanted = {**held, "hostIP": ip, "protocol": protocol}

    assert bool(feasible(state, pod(ports=[wanted]))) is fits
