"""Nodes on which a tier counts: put on a pod, written down, and taken off again."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.mig.tier_nodes import TierNodes, parse_where
from scheduler.model.pods.pod import Pod
from scheduler.model.selector import Requirement, Term
from tests.builders import pod

A100 = TierNodes((("gpu-type", "a100"),))
LARGE = TierNodes(memory_mib=15000)
BOTH = TierNodes((("gpu-type", "a100"),), 15000)
MEMORY = Requirement("nvidia.com/gpu.memory", "Gt", ("14999",))


def required(*terms: Any) -> Pod:
    """A pod with required node affinity."""
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    return pod(spec={"affinity": {"nodeAffinity": {key: {"nodeSelectorTerms": list(terms)}}}})


ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


@pytest.mark.parametrize("where", [TierNodes(), A100, LARGE, BOTH])
def test_written_tier_nodes_are_read_back(where: TierNodes) -> None:
    assert parse_where(where.text) == where


def test_invalid_tier_nodes_are_ignored() -> None:
    assert parse_where("nvidia.com/gpu.memory>=x,,a") == TierNodes()


@pytest.mark.parametrize("where", [A100, LARGE, BOTH])
@pytest.mark.parametrize(
    "bare",
    [
        pytest.param(pod(), id="free"),
        pytest.param(pod(selector={"zone": "a"}), id="with-a-selector"),
        pytest.param(required(ZONE), id="with-affinity"),
        pytest.param(required(ZONE, ZONE), id="with-a-choice"),
    ],
)
def test_added_tier_nodes_are_removed_again(where: TierNodes, bare: Pod) -> None:
    bound = where.on(bare)

    assert bound is not None
    assert bound != bare
    assert where.on(bound) == bound
    assert where.off(bound) == bare


def test_the_memory_is_a_condition_of_every_term() -> None:
    bound = LARGE.on(required(ZONE, {}))

    assert bound is not None
    assert bound.required_terms is not None
    first, second = bound.required_terms
    assert MEMORY in first.match_expressions
    assert len(first.match_expressions) == 2
    assert second == Term()  # an empty term matches no node, and must not begin to


def test_a_pod_that_asks_for_other_nodes_has_no_such_tier() -> None:
    assert A100.on(pod(selector={"gpu-type": "h100"})) is None
    kept = pod(selector={"gpu-type": "a100"})
    assert A100.on(kept) == kept


def test_two_tiers_of_one_pod_need_nodes_that_have_both() -> None:
    assert A100.beside(TierNodes((("zone", "a"),), 5)) == TierNodes(
        (("gpu-type", "a100"), ("zone", "a")), 5
    )
    assert LARGE.beside(TierNodes(memory_mib=20000)) == TierNodes(memory_mib=20000)
    assert A100.beside(TierNodes((("gpu-type", "h100"),))) is None
