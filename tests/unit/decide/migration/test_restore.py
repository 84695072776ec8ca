"""The kinds of degraded pods: one check of a restore answers for all pods of a kind."""

from __future__ import annotations

from typing import Any

from scheduler.decide.migration.restore import group_key
from tests.builders import cluster, node, pod

APART: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
            ]
        }
    }
}


def test_pods_with_different_terms_are_of_different_kinds() -> None:
    topology = cluster(node()).topology

    assert group_key(topology, pod("a")) == group_key(topology, pod("b"))
    assert group_key(topology, pod("a")) != group_key(topology, pod("b", spec=APART))


def test_pods_that_a_placed_term_selects_are_of_another_kind() -> None:
    topology = cluster(node(), pod("guard", node="n1", spec=APART)).topology

    assert group_key(topology, pod("a")) != group_key(topology, pod("b", labels={"app": "x"}))
