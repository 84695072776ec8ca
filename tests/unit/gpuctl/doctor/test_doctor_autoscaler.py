"""The doctor finds nodes that cluster-autoscaler takes for unready."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.doctor.api_types import ApiObject, Meta, node_of
from gpuctl.doctor.checks import examine
from gpuctl.doctor.facts import Node
from gpuctl.doctor.finding import Finding, Level
from tests.unit.gpuctl.doctor.wellcluster import GPU, facts

GKE = "cloud.google.com/gke-accelerator"
MIG = "nvidia.com/mig-1g.10gb"


def sliced(labels: Any = None, **allocatable: str) -> Node:
    """A node as the API shows it; all of its GPUs have MIG instances."""
    offers = {MIG: "7", GPU: "0", **allocatable}
    labels = {GKE: "nvidia-tesla-a100"} if labels is None else labels
    return node_of(
        ApiObject(Meta("n1", labels=labels), status={"allocatable": offers, "capacity": offers})
    )


def findings(node: Node) -> list[Finding]:
    return [one for one in examine(facts(nodes=(node,))) if one.about == "autoscaler"]


@pytest.mark.contract("S4-23")
def test_fully_sliced_node_of_a_cloud_is_a_warning() -> None:
    """CA#8095: a fully sliced node offers no GPU that cluster-autoscaler knows."""
    [found] = findings(sliced())

    assert found.level is Level.WARN
    assert found.says.startswith("cluster-autoscaler takes n1 for unready")
    assert f"label {GKE}, MIG instances, and no {GPU}" in found.says
    assert "docs/autoscalers.md" in found.advice


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(sliced({}), id="without-the-label-of-a-cloud"),
        pytest.param(sliced(**{GPU: "1"}), id="one-whole-gpu"),
        pytest.param(sliced(**{MIG: "0"}), id="no-instances"),
    ],
)
def test_other_nodes_are_no_problem_for_the_autoscaler(node: Node) -> None:
    assert findings(node) == []
