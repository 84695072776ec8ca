"""A gang that requests a level of the topology: the tightest domain, or why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from scheduler.decide.gang.plan import GangPlan, plan_gang
from scheduler.framework.decision import Rejection
from scheduler.framework.settings import Settings
from scheduler.model import well_known
from scheduler.model.topology.request import TopologyRequest
from scheduler.plugins import default_pipeline
from tests.builders import cluster, node, pod
from tests.gangs import member, members
from tests.topology import (
    BLOCK,
    LEVELS,
    RACK,
    assume,
    domains,
    message,
    plan,
    preferred,
    rack,
    required,
)

CLIQUE = well_known.NVLINK_CLIQUE


@pytest.mark.parametrize(
    ("racks", "count", "expected"),
    [
        pytest.param([[4, 4], [2, 2], [4]], 4, ["r2"], id="equal ones by name"),
        pytest.param([[4, 4], [3, 2], [4]], 4, ["r3"], id="the tightest one"),
        pytest.param([[1, 1, 1], [8]], 4, ["r2"], id="the only one"),
    ],
)
@pytest.mark.parametrize("request_of", [required, preferred])
def test_a_gang_gets_the_tightest_domain_that_holds_it(
    racks: list[list[int]],
    count: int,
    expected: list[str],
    request_of: Callable[[str], dict[str, str]],
) -> None:
    state = cluster(*(one for at, gpus in enumerate(racks, 1) for one in rack(f"r{at}", *gpus)))

    found = plan(state, members(count, count, gpus=1, annotations=request_of(RACK)))

    assert domains(state, found) == expected


@pytest.mark.parametrize(("key", "expected"), [(BLOCK, ["r1", "r2"]), (RACK, ["r3"])])
def test_the_level_that_is_named_counts(key: str, expected: list[str]) -> None:
    """VOL#5189: the name of a tier was ignored."""
    state = cluster(*rack("r1", 1), *rack("r2", 1), *rack("r3", 3, block="b2"))

    assert domains(state, plan(state, members(2, 2, gpus=1, annotations=required(key)))) == expected


def test_preferred_goes_up_one_level_where_no_domain_holds_it() -> None:
    """The block of two small racks comes before the largest racks of two blocks."""
    state = cluster(
        *(*rack("r1", 4), *rack("r2", 2)),
        *(*rack("r3", 3, block="b2"), *rack("r4", 3, block="b2")),
    )

    found = plan(state, members(6, 6, gpus=1, annotations=preferred(RACK)))

    assert domains(state, found, BLOCK) == ["b1"]


def test_preferred_takes_the_fewest_domains_of_a_block() -> None:
    state = cluster(*rack("r1", 1), *rack("r2", 2), *rack("r3", 4), *rack("r4", 4))

    found = plan(state, members(6, 6, gpus=1, annotations=preferred(RACK)))

    assert domains(state, found) == ["r2", "r3"]


def test_preferred_is_split_over_the_largest_domains_at_last() -> None:
    """No block holds it; by best fit alone the small racks would be filled first."""
    sizes = {"b1": (1, 4), "b2": (1, 4), "b3": (1, 2)}
    state = cluster(
        *(
            one
            for block, (small, large) in sizes.items()
            for one in (*rack("s", small, block=block), *rack("l", large, block=block))
        )
    )

    found = plan(state, members(8, 8, gpus=1, annotations=preferred(RACK)))

    assert isinstance(found, GangPlan)
    assert sorted({one.node_name for one in found.placements}) == ["b1-l-1", "b2-l-1"]


def test_preferred_keeps_within_the_required_level() -> None:
    """Two racks of one block, although one rack of the other blocks holds half of it."""
    state = cluster(
        *(*rack("r1", 3), *rack("r2", 3)),
        *rack("r3", 5, block="b2"),
    )
    near = {**required(BLOCK), **preferred(RACK)}

    found = plan(state, members(6, 6, gpus=1, annotations=near))

    assert domains(state, found, BLOCK) == ["b1"]


def test_required_without_room_names_the_domains() -> None:
    state = cluster(
        *rack("r1", 4), *rack("r2", 6), *rack("r3", 1), *rack("r4", 2), *rack("r5", 2, block="b2")
    )

    found = plan(state, members(8, 8, gpus=1, annotations=required(RACK)))

    assert message(found) == (
        "0/5 nodes are available: no domain of example.com/rack has room for the 8 members of"
        " group train that have to be placed together: b1/r2 has room for 6; b1/r1 has room for 4;"
        " b1/r4 has room for 2; 2 more have room for at most 2."
    )
    assert isinstance(found, Rejection)
    assert found.diagnosis.condition_reason(is_mapped=False) == "Unschedulable"


def test_a_cluster_without_room_keeps_the_ordinary_reason() -> None:
    state = cluster(*rack("r1", 2), *rack("r2", 2))

    found = plan(state, members(8, 8, gpus=1, annotations=required(RACK)))

    assert "Insufficient nvidia.com/gpu" in message(found)


def test_a_label_that_no_node_has_is_named_once() -> None:
    state = cluster(*rack("r1", 8))

    found = plan(state, members(2, 2, gpus=1, annotations=required("example.com/rak")))

    assert message(found) == (
        "0/1 nodes are available: no node has the label example.com/rak of the required topology;"
        " levels of this cluster: example.com/block example.com/rack."
    )
    assert isinstance(found, Rejection)
    assert found.diagnosis.condition_reason(is_mapped=False) == "UnknownTopology"


def test_an_unknown_preferred_level_is_ignored_with_a_warning() -> None:
    state = cluster(*rack("r1", 2))

    found = plan(state, members(2, 2, gpus=1, annotations=preferred("example.com/rak")))

    assert isinstance(found, GangPlan)
    assert found.placements[0].notes == (
        (
            "UnknownTopology",
            "no node has the label example.com/rak of the preferred topology, so it is ignored;"
            " levels of this cluster: example.com/block example.com/rack",
        ),
    )


def test_nodes_without_the_label_are_out_for_required() -> None:
    state = cluster(node("bare", gpus=4), *rack("r1", 8))

    found = plan(state, members(4, 4, gpus=1, annotations=required(RACK)))

    assert domains(state, found) == ["r1"]


def test_nodes_without_the_label_are_the_last_preferred_domain() -> None:
    state = cluster(node("bare", gpus=4), *rack("r1", 8))

    small = plan(state, members(4, 4, "small", gpus=1, annotations=preferred(RACK)))
    assume(state, small)
    large = plan(state, members(4, 4, "large", gpus=1, annotations=preferred(RACK)))

    assert (domains(state, small), domains(state, large)) == (["r1"], ["r1"])


def test_racks_of_one_name_in_two_blocks_are_two_domains() -> None:
    state = cluster(*rack("r1", 2, block="b1"), *rack("r1", 2, block="b2"))

    found = plan(state, members(4, 4, gpus=1, annotations=required(RACK)))

    assert "b1/r1 has room for 2; b2/r1 has room for 2" in message(found)


def test_an_empty_label_value_is_a_domain() -> None:
    """JS#1088: a selector with an empty value."""
    state = cluster(*rack("", 4), *rack("r1", 2))

    found = plan(state, members(4, 4, gpus=1, annotations=required(RACK)))

    assert domains(state, found) == [""]


def test_placed_members_pin_the_required_domain() -> None:
    state = cluster(*rack("r1", 3), *rack("r2", 2))
    first = plan(state, members(2, 2, gpus=1, annotations=required(RACK)))
    assume(state, first)
    more = [member(f"more-{at}", 4, gpus=1, annotations=required(RACK)) for at in range(2)]

    found = plan(state, more)

    assert domains(state, first) == ["r2"]
    assert message(found).endswith(
        " beside 2 with a node; more-0 does not. the domain of example.com/rack where 2 members are"
        " has no room for the 2 members of group train that have to be placed together: b1/r2 has"
        " room for 0."
    )


def test_placed_members_draw_the_others_near() -> None:
    """The tightest rack for the rest alone would be another one."""
    state = cluster(*rack("r1", 5), *rack("r2", 1), *rack("r3", 9))
    near = preferred(RACK)
    assume(state, plan(state, members(3, 3, gpus=1, annotations=near)))

    found = plan(state, [member("late", 3, gpus=1, annotations=near)])

    assert domains(state, found) == ["r1"]


def test_members_fill_the_nodes_of_a_domain_like_best_fit() -> None:
    """The fullest node first, the next one where no equal member fits any more."""
    state = cluster(*rack("r1", 4, 2, 3))

    found = plan(state, members(6, 6, gpus=1, annotations=required(RACK)))

    assert isinstance(found, GangPlan)
    nodes = Counter(one.node_name for one in found.placements)
    assert nodes == {"b1-r1-2": 2, "b1-r1-3": 3, "b1-r1-1": 1}


def test_spread_pods_are_spread_over_the_nodes_of_a_domain() -> None:
    state = cluster(*rack("r1", 4, 4, 4))
    pods = members(3, 3, gpus=1, annotations=required(RACK))
    for one in pods:
        state.upsert_pod(one)
    gang = state.gangs.of(pods[0])
    assert gang is not None

    found = plan_gang(state, gang, pods, default_pipeline(Settings(placement="spread")))

    assert isinstance(found, GangPlan)
    assert len({one.node_name for one in found.placements}) == 3


@pytest.mark.contract("S4-21")
def test_nvlink_cliques_are_domains_without_configuration() -> None:
    """The nodes of a rack have two cliques: the group needs all of one."""
    state = cluster(
        *(
            node(f"n{at}", gpus=4, labels={BLOCK: "b1", RACK: "r1", CLIQUE: f"u.{at // 2}"})
            for at in range(4)
        )
    )
    assume(state, plan(state, members(2, 2, "other", gpus=1, annotations=required(CLIQUE))))

    found = plan(state, members(2, 2, gpus=4, annotations=required(CLIQUE)))

    assert domains(state, found, CLIQUE) == ["u.1"]


def test_a_key_that_is_no_level_stands_alone() -> None:
    pool = "example.com/pool"
    state = cluster(
        *(node(f"n{at}", gpus=2, labels={pool: "ab"[at // 2], RACK: f"r{at}"}) for at in range(4))
    )

    found = plan(state, members(4, 4, gpus=1, annotations=required(pool)))

    assert domains(state, found, pool) == ["a"]


def test_levels_need_no_host_names() -> None:
    """KUE#5039: levels that end above the node."""
    state = cluster(*rack("r1", 2, 2), *rack("r2", 4, 4))

    found = plan(state, members(4, 4, gpus=1, annotations=required(RACK)))

    assert domains(state, found) == ["r1"]


def test_the_minimum_is_enough_where_no_domain_holds_all() -> None:
    state = cluster(*rack("r1", 2), *rack("r2", 3))

    found = plan(state, members(4, 2, gpus=1, annotations=required(RACK)))

    assert isinstance(found, GangPlan)
    assert (len(found.placements), len(found.left)) == (2, 2)
    assert domains(state, found) == ["r1"]


def test_all_members_count_where_a_domain_holds_them() -> None:
    state = cluster(*rack("r1", 2), *rack("r2", 4))

    found = plan(state, members(4, 2, gpus=1, annotations=required(RACK)))

    assert domains(state, found) == ["r2"]


def test_ranks_follow_the_domains_then_the_nodes() -> None:
    """The names of the nodes alone would alternate between the racks."""
    racks = ["r2", "r1", "r2", "r1"]
    state = cluster(
        *(node(f"n{at}", gpus=1, labels={BLOCK: "b1", RACK: name}) for at, name in enumerate(racks))
    )
    pods = members(4, 4, gpus=1, owner="StatefulSet/train", annotations=preferred(RACK))

    found = plan(state, reversed(pods))

    assert isinstance(found, GangPlan)
    at = {one.pod.name: one.node_name for one in found.placements}
    assert [at[f"train-{rank}"] for rank in range(4)] == ["n1", "n3", "n0", "n2"]


def test_the_object_of_a_gang_may_require_the_level() -> None:
    """A PodGroup with a topology key."""
    state = cluster(*rack("r1", 1), *rack("r2", 1), *rack("r3", 2))
    pods = members(2, 2, gpus=1)
    for one in pods:
        state.upsert_pod(one)
    gang = state.gangs.of(pods[0])
    assert gang is not None
    gang.topology_of_object = TopologyRequest(required=RACK)

    assert domains(state, plan_gang(state, gang, pods, LEVELS)) == ["r3"]


def test_kueues_annotation_of_a_pod_group_is_read() -> None:
    state = cluster(*rack("r1", 1), *rack("r2", 1), *rack("r3", 2))
    pods = [
        pod(
            f"k-{at}",
            gpus=1,
            labels={well_known.KUEUE_GROUP: "k"},
            annotations={
                well_known.KUEUE_TOTAL: "2",
                well_known.KUEUE_TOPOLOGY_REQUIRED: RACK,
            },
        )
        for at in range(2)
    ]

    assert domains(state, plan(state, pods)) == ["r3"]
