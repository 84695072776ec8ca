"""Exclusive domains of JobSet and LeaderWorkerSet are affinity terms, written by their webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.pods.pod import Pod
from scheduler.model.reasons.reason import sentence
from scheduler.state.cache.cluster import Cluster
from tests.builders import cluster, node, pod, refused, settle
from tests.topology import RACK, rack

JOB_KEY = "jobset.sigs.k8s.io/job-key"
GROUP_KEY = "leaderworkerset.sigs.k8s.io/group-key"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def exclusive(label: str, value: str) -> dict[str, Any]:
    """Near the pods of its own job or group, away from those of every other one."""
    own: dict[str, Any] = {"key": label, "operator": "In", "values": [value]}
    others: list[dict[str, Any]] = [
        {"key": label, "operator": "Exists"},
        {"key": label, "operator": "NotIn", "values": [value]},
    ]

    def term(expressions: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "labelSelector": {"matchExpressions": expressions},
            "topologyKey": RACK,
            "namespaceSelector": {},
        }

    return {
        "affinity": {
            "podAffinity": {REQUIRED: [term([own])]},
            "podAntiAffinity": {REQUIRED: [term(others)]},
        }
    }


def leader(name: str, label: str = JOB_KEY) -> Pod:
    return pod(f"{name}-0", gpus=1, labels={label: name}, spec=exclusive(label, name))


def rack_of(state: Cluster, one: Pod) -> str:
    found = state.nodes.at(settle(state, one).node_name)
    assert found is not None
    assert found.node is not None
    return found.node.labels[RACK]


def test_leaders_of_jobs_get_racks_of_their_own() -> None:
    """JobSet: the followers get the rack of their leader as a node selector."""
    state = cluster(*rack("r1", 4), *rack("r2", 4))
    found = {name: rack_of(state, leader(name)) for name in ("a", "b")}
    followers = [
        pod(f"{name}-1", gpus=1, labels={JOB_KEY: name}, selector={RACK: found[name]})
        for name in ("a", "b")
    ]

    assert sorted(found.values()) == ["r1", "r2"]
    assert [rack_of(state, one) for one in followers] == list(found.values())


def test_no_other_job_takes_the_rack_of_followers() -> None:
    """JS#341: there is room beside the leader for a leader of another job."""
    state = cluster(*rack("r1", 8))
    settle(state, leader("a"))

    assert "didn't match pod anti-affinity rules" in sentence(refused(state, leader("b")).diagnosis)
    settle(state, pod("a-1", gpus=7, labels={JOB_KEY: "a"}, selector={RACK: "r1"}))


@pytest.mark.parametrize("labels", [{}, {RACK: "r1"}], ids=["no label", "another value"])
def test_an_empty_selector_value_matches_empty_labels_only(labels: dict[str, str]) -> None:
    """JS#1088: a follower with an empty value went to any node."""
    state = cluster(node("n1", gpus=1, labels=labels))
    follower = pod("a-1", gpus=1, selector={RACK: ""})

    refused(state, follower)
    state.upsert_node(node("n2", gpus=1, labels={RACK: ""}))
    assert settle(state, follower).node_name == "n2"


def test_groups_of_a_leader_worker_set_get_racks_of_their_own() -> None:
    """Leader and workers have the same terms."""
    state = cluster(*rack("r1", 4), *rack("r2", 4))
    racks = {
        name: {
            rack_of(
                state,
                pod(
                    f"{name}-{at}",
                    gpus=1,
                    labels={GROUP_KEY: name},
                    spec=exclusive(GROUP_KEY, name),
                ),
            )
            for at in range(3)
        }
        for name in ("a", "b")
    }

    assert sorted(racks.values(), key=sorted) == [{"r1"}, {"r2"}]
