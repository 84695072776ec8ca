"""Some nodes of each domain are compared: the chosen one is preferred as much as any other."""

from __future__ import annotations

from hypothesis import given, settings

from scheduler.decide import compared_nodes
from scheduler.decide.feasible_nodes import FeasibleNodes
from scheduler.decide.view import WhatIfView
from scheduler.framework.budget import Budget
from scheduler.framework.pipeline import PreFiltered
from scheduler.model.pods.pod import Pod
from scheduler.state.cache.cluster import Cluster
from tests.builders import ALLOW_ALL_MAPS
from tests.property.test_pod_terms import wanted, worlds


@settings(max_examples=150)
@given(worlds(), wanted("new"))
def test_chosen_node_has_the_greatest_preference_of_all(
    world: tuple[Cluster, WhatIfView | None], newcomer: Pod
) -> None:
    cluster, _ = world
    filtered = ALLOW_ALL_MAPS.pre_filter(cluster, newcomer)
    assert isinstance(filtered, PreFiltered)
    nodes = FeasibleNodes(cluster, newcomer, ALLOW_ALL_MAPS, Budget(10**9), filtered.bound)
    if not compared_nodes.are_compared(nodes):
        return

    chosen = compared_nodes.best(nodes)

    every = nodes.among(cluster.candidates())
    assert (chosen is None) is (not every)
    if chosen is not None:
        totals = ALLOW_ALL_MAPS.normalized_scores(cluster, newcomer, every)
        preferred = [preferences for preferences, _ in totals]
        assert preferred[every.index(chosen)] == max(preferred)
