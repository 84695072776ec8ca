"""The groups of Volcano, KAI Scheduler and Grove as the API server sends them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model.pods.gang import GangSource, PodGroup
from scheduler.state import event as ev
from scheduler.watch.decode.groups import grove, kai, volcano
from scheduler.watch.decode.groups.group_decoder import GroupDecoder


def read(decoder: GroupDecoder, spec: dict[str, Any]) -> ev.Event:
    meta = {"name": "train", "namespace": "team", "uid": "u"}
    return decoder.event(msgspec.json.encode({"metadata": meta, "spec": spec}), is_gone=False)


def updated(source: GangSource, minimum: int | None, **fields: Any) -> ev.Event:
    return ev.PodGroupUpdated(PodGroup("team", "train", minimum, source.value, **fields))


def missing(source: GangSource) -> ev.Event:
    return ev.PodGroupDeleted("team", "train", source.value)


@pytest.mark.parametrize(
    ("spec", "minimum", "roles"),
    [
        pytest.param({"minMember": 8, "queue": "default"}, 8, {}, id="a-minimum"),
        pytest.param({}, 1, {}, id="none"),
        pytest.param({"minMember": 3, "minTaskMember": None}, 3, {}, id="no-tasks"),
        pytest.param(
            {"minMember": 3, "minTaskMember": {"master": 1, "worker": 2, "viewer": 0}},
            *(3, {"master": 1, "worker": 2}),
            id="tasks",
        ),
        pytest.param(
            {"minMember": 2, "minTaskMember": {"master": 1, "worker": 2}}, 2, {}, id="more-tasks"
        ),
        pytest.param({"minMember": 4, "minTaskMember": {"master": 1}}, 4, {}, id="fewer-tasks"),
    ],
)
def test_volcano_group_has_its_minimum(
    spec: dict[str, Any], minimum: int, roles: dict[str, int]
) -> None:
    assert read(volcano.POD_GROUPS, spec) == updated(GangSource.VOLCANO, minimum, roles=roles)


PARTS = [{"name": "prefill", "minMember": 4}, {"name": "decode"}]
TREE = [
    {"name": "replica", "minSubGroup": 2},
    {"name": "leader", "parent": "replica", "minMember": 1},
    {"name": "workers", "parent": "replica", "minMember": 3},
]


@pytest.mark.parametrize(
    ("spec", "minimum", "roles", "problem"),
    [
        pytest.param({"minMember": 8}, 8, {}, "", id="a-minimum"),
        pytest.param({}, 1, {}, "", id="none"),
        pytest.param({"minMember": 0}, None, {}, "", id="zero-is-no-gang"),
        pytest.param({"subGroups": PARTS}, 5, {"prefill": 4, "decode": 1}, "", id="subgroups"),
        pytest.param({"subGroups": TREE}, 4, {"leader": 1, "workers": 3}, "", id="a-tree"),
        pytest.param(
            {"subGroups": PARTS, "minSubGroup": 2},
            *(5, {"prefill": 4, "decode": 1}, ""),
            id="all-subgroups",
        ),
        pytest.param(
            {"subGroups": PARTS, "minSubGroup": 1},
            *(5, {"prefill": 4, "decode": 1}, "spec.minSubGroup"),
            id="some-subgroups-suffice",
        ),
        pytest.param(
            {"subGroups": [{"name": "extra", "minMember": 0}]}, None, {}, "", id="no-minimum-at-all"
        ),
    ],
)
def test_kai_group_has_the_minimum_of_each_leaf(
    spec: dict[str, Any], minimum: int | None, roles: dict[str, int], problem: str
) -> None:
    expected = updated(GangSource.KAI, minimum, roles=roles, problem=problem)

    assert read(kai.POD_GROUPS, spec) == expected


@pytest.mark.parametrize(
    ("spec", "minimum", "roles"),
    [
        pytest.param(
            {
                "podgroups": [
                    {"name": "s-0-prefill", "minReplicas": 2, "podReferences": []},
                    {"name": "s-0-decode", "minReplicas": 4},
                    {"name": "s-0-router", "minReplicas": 0},
                ]
            },
            *(6, {"s-0-prefill": 2, "s-0-decode": 4}),
            id="cliques",
        ),
        pytest.param({"podgroups": []}, None, {}, id="none"),
    ],
)
def test_grove_gang_has_the_minimum_of_each_clique(
    spec: dict[str, Any], minimum: int | None, roles: dict[str, int]
) -> None:
    assert read(grove.POD_GANGS, spec) == updated(GangSource.GROVE, minimum, roles=roles)


@pytest.mark.parametrize(
    ("decoder", "spec", "source"),
    [
        pytest.param(volcano.POD_GROUPS, {"minMember": "x"}, GangSource.VOLCANO, id="volcano"),
        pytest.param(volcano.POD_GROUPS, {"minMember": 10**6}, GangSource.VOLCANO, id="too-many"),
        pytest.param(kai.POD_GROUPS, {"subGroups": [1]}, GangSource.KAI, id="kai"),
        pytest.param(grove.POD_GANGS, {"podgroups": {}}, GangSource.GROVE, id="grove"),
    ],
)
def test_unreadable_group_of_another_scheduler_counts_as_absent(
    decoder: GroupDecoder, spec: dict[str, Any], source: GangSource
) -> None:
    assert read(decoder, spec) == missing(source)
