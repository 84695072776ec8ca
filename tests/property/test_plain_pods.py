"""A plugin that skips plain pods has nothing to say about them."""

from __future__ import annotations

import msgspec
from hypothesis import given

from scheduler.decide.schedule_one import schedule_one
from scheduler.framework.pipeline import Pipeline
from scheduler.model.node import Node
from scheduler.model.pods.pod import Pod
from scheduler.plugins import PLUGINS
from tests.builders import cluster
from tests.property.strategies import several
from tests.property.test_decide import FEWER, PROFILES, node_lists, stranger_lists

ASKED_ABOUT_ALL = tuple(msgspec.structs.replace(one, skips_plain=False) for one in PLUGINS)


@FEWER
@given(node_lists, stranger_lists, several(6), PROFILES)
def test_plain_pod_gets_the_decision_of_the_full_pipeline(
    offered: list[Node], others: list[Pod], pods: list[Pod], pipeline: Pipeline
) -> None:
    asked = Pipeline(plugins=ASKED_ABOUT_ALL, **msgspec.structs.asdict(pipeline.settings))
    state = cluster(*offered, *others)

    for one in pods:
        assert schedule_one(state, one, pipeline) == schedule_one(state, one, asked)
