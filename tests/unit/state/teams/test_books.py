"""What teams use and are entitled to, kept by events."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model.node import Namespace
from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import RequeueCause
from scheduler.model.teams.amount import NOTHING, GpuAmount
from scheduler.state import event as ev
from scheduler.state.cache.cluster import Cluster
from scheduler.state.event import ClusterEvent
from scheduler.state.fold import fold
from scheduler.state.queue.gang_queue import GangQueue
from scheduler.state.reservations import Reservations
from scheduler.state.snapshot import ClusterSnapshot, restore, take
from tests.builders import cluster, dynamic, namespace, node, pod, settle
from tests.dra import (
    allocation_json,
    claiming,
    device_class,
    device_json,
    resource_claim,
    resource_slice,
    result_json,
)
from tests.teams import A100, NVIDIA, SERVING, amount, card, gpus, table, team

TWO = table(team("a", 2), team("b", 2))


def used(state: Cluster) -> dict[str, GpuAmount]:
    teams = state.teams
    assert teams.table is not None
    found = {name: teams.used(name) for name in (*teams.table.teams, "")}
    return {name: one for name, one in found.items() if one}


@pytest.mark.contract("S4-25")
@pytest.mark.parametrize(
    ("held", "expected"),
    [
        pytest.param(pod(node="n1", namespace="a", gpus=2), gpus(2), id="whole GPUs"),
        pytest.param(
            pod(
                node="n1",
                namespace="a",
                mig={"1g.10gb": 1},
                annotations={"gpu-webhook.k8s.io/fallback": "2g.20gb->1g.10gb"},
            ),
            amount(1, 10),
            id="a degraded pod counts what it has",
        ),
        pytest.param(
            pod(node="n1", namespace="a", gpus=1, scheduler="other"),
            gpus(1),
            id="a pod of another scheduler",
        ),
        pytest.param(
            pod(node="n1", namespace="a", map="0=n1:0,1", devices="gpu:0,1", index=0),
            gpus(2),
            id="GPUs of a map without a request",
        ),
        pytest.param(pod(node="n1", namespace="a", requests={"cpu": 4}), NOTHING, id="no GPU"),
    ],
)
def test_a_placed_pod_counts_what_it_was_granted(held: Pod, expected: GpuAmount) -> None:
    state = cluster(TWO, node("n1", gpus=8, labels=A100, with_gpu_indexes=True), held)

    assert state.teams.used("a") == expected
    state.delete_pod(held.uid)
    assert used(state) == {}


def test_pods_on_one_gpu_by_map_have_equal_parts() -> None:
    state = cluster(TWO, node("n1", labels=A100, with_gpu_indexes=True, gpus=None))
    for name in ("p-0", "p-1"):
        shared = pod(
            name, node="n1", namespace="a", owner="StatefulSet/p", map="0=n1:0\n1=n1:0",
            devices="gpu:0", index=0,
        )  # fmt: skip
        state.upsert_pod(shared)

    assert state.teams.used("a") == gpus(1)
    state.delete_pod("a-p-0")
    assert state.teams.used("a") == gpus(1)


def test_an_assumed_pod_counts_until_it_is_forgotten() -> None:
    state = cluster(TWO, node("n1", gpus=2, labels=A100))
    settle(state, pod("p", namespace="a", gpus=1))

    assert used(state) == {"a": gpus(1)}
    changes = state.forget("a-p")
    assert used(state) == {}
    assert ClusterEvent(RequeueCause.TEAM, what=frozenset(("a",))) in changes


def test_a_pod_whose_node_comes_later_gets_its_worth() -> None:
    state = cluster(TWO, pod(node="n1", namespace="a", gpus=1))
    state.upsert_node(node("n1", gpus=1, labels=A100))

    assert used(state) == {"a": gpus(1)}


def test_teams_that_come_later_count_what_is_placed() -> None:
    state = cluster(node("n1", gpus=2, labels=A100), pod(node="n1", namespace="a", gpus=1))
    assert state.teams.used("a") == NOTHING

    state.set_teams(TWO)
    assert used(state) == {"a": gpus(1)}
    state.set_teams(None)
    assert state.teams.used("a") == NOTHING


def test_a_team_is_the_namespaces_with_one_label_value() -> None:
    labelled = table(team("a", 2), label="team")
    state = cluster(labelled, node("n1", gpus=4, labels=A100))
    for name in ("x", "y", "z"):
        state.upsert_pod(pod(node="n1", namespace=name, gpus=1))
    assert used(state) == {"": gpus(3)}

    for name in ("x", "y"):
        state.upsert_namespace(namespace(name, labels={"team": "a"}))
    assert used(state) == {"a": gpus(2), "": gpus(1)}


def test_annotations_of_namespaces_make_teams() -> None:
    state = cluster(node("n1", gpus=4, labels=A100), pod(node="n1", namespace="a", gpus=1))
    state.teams.of_namespaces = True
    quota = {"gpu-scheduler.io/team-limit": "slices=14"}
    state.upsert_namespace(Namespace(name="a", annotations=quota))

    assert used(state) == {"a": gpus(1)}
    state.upsert_namespace(Namespace(name="a"))
    assert state.teams.table is None


def test_refused_teams_leave_the_former_ones() -> None:
    state = cluster(TWO)
    fold(state, ev.TeamsRead(problem="teams.yaml: no YAML", name="ns/teams"))
    assert state.teams.table == TWO

    fold(state, ev.TeamsRead())
    assert state.teams.table is None


# --- claims ---------------------------------------------------------------------------------


def test_a_claim_counts_its_devices_once() -> None:
    partition = device_json("m", attributes={f"{NVIDIA}/profile": {"string": "1g.10gb+me"}})
    slices = resource_slice("n1", card("gpu-0"), partition, driver=NVIDIA)
    given = allocation_json(
        *(result_json(name, "n1", driver=NVIDIA) for name in ("gpu-0", "m")), node="n1"
    )
    claim = resource_claim("gpu", allocation=given, namespace="a")
    shared = [pod(name, node="n1", namespace="a", spec=claiming("gpu")) for name in ("p", "q")]
    state = cluster(TWO, device_class(), node("n1"), slices, claim, *shared)
    state.update_devices()

    assert used(state) == {"a": amount(8, 90)}


def test_a_claim_counts_once_its_device_is_published() -> None:
    given = allocation_json(result_json("gpu-0", "n1", driver=NVIDIA), node="n1")
    state = cluster(TWO, node("n1"), resource_claim("gpu", allocation=given, namespace="a"))
    assert used(state) == {}

    fold(state, ev.DraUpdated(resource_slice("n1", card("gpu-0"), driver=NVIDIA)))
    assert used(state) == {"a": gpus(1)}


def test_an_extended_resource_of_dra_counts_once() -> None:
    slices = resource_slice("n1", card("gpu-0"), card("gpu-1"), driver=NVIDIA)
    state = cluster(TWO, node("n1"), slices, SERVING)
    state.update_devices()
    settle(state, pod("p", namespace="a", gpus=1))

    assert used(state) == {"a": gpus(1)}
    assert state.teams.capacity == gpus(2)
    state.forget("a-p")
    assert used(state) == {}


# --- entitlement ----------------------------------------------------------------------------


def test_capacity_is_healthy_devices_without_other_pods() -> None:
    state = cluster(
        TWO,
        node("n1", gpus=4, labels=A100),
        dynamic("n2", gpus=2),
        pod(node="n1", namespace="other", gpus=1),
    )
    cards = dynamic("n2", gpus=2).dynamic_mig
    assert cards is not None
    rest = GpuAmount(7000, cards.gpu_model.memory_gb * 1024).times(2)

    assert state.teams.capacity == gpus(3).plus(rest)
    state.delete_node("n2")
    assert state.teams.capacity == gpus(3)


def test_guarantees_above_the_cluster_are_scaled() -> None:
    """KAI#1750: nothing checked that the quotas fit the cluster."""
    state = cluster(table(team("a", 6), team("b", 2)), node("n1", gpus=4, labels=A100))
    both = [state.teams.guarantee(one) for one in (team("a", 6), team("b", 2))]

    assert both == [gpus(3), gpus(1)]
    state.upsert_node(node("n2", gpus=4, labels=A100))
    assert state.teams.guarantee(team("a", 6)) == gpus(6)


def test_a_snapshot_has_the_same_books() -> None:
    state = cluster(TWO, node("n1", gpus=4, labels=A100), pod(node="n1", namespace="a", gpus=1))
    settle(state, pod("q", namespace="b", gpus=1))
    taken = take(state, GangQueue(state.gangs), Reservations(), 1, 1.0)
    again = restore(msgspec.json.decode(msgspec.json.encode(taken), type=ClusterSnapshot))

    assert used(again) == used(state) == {"a": gpus(1), "b": gpus(1)}
    assert again.teams.capacity == state.teams.capacity
