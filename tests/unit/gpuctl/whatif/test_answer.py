"""The answer of ``gpuctl whatif``: what starts, what waits, and which pods move."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gpuctl.input_error import InputError
from gpuctl.output.whatif import render
from gpuctl.simulate.manifests import Document
from gpuctl.whatif.budgets import Health
from gpuctl.whatif.recreated_pods import from_owner, from_pod
from gpuctl.whatif.result import WhatIf
from scheduler.model.gpu.device import Devices
from scheduler.state.snapshot import Assumed
from tests.builders import node, pod, pod_json
from tests.storage import ZONE, claim, claim_json, uses, volume
from tests.unit.gpuctl.cli import GPU, spec, workload
from tests.unit.gpuctl.cli import pod as written_pod
from tests.unit.gpuctl.test_narrow_terminals import printed
from tests.unit.gpuctl.whatif.live_world import (
    H100,
    Json,
    asked,
    budget,
    live,
    places,
    running,
    starts,
)


def train(count: int = 2, gpus: int = 8, **metadata: Any) -> Json:
    """A Job whose pods request whole GPUs."""
    job = workload("Job", "train", spec(GPU, gpus), parallelism=count, completions=count)
    job["metadata"] |= metadata
    return job


def h100(name: str, **fields: Any) -> Any:
    return node(name, gpus=8, labels=H100, **fields)


def test_without_a_change_there_is_one_situation() -> None:
    found = asked(live(h100("n1")), train(2))

    assert found.change is None
    assert (found.now.starts, found.now.asked, found.all_start) == (1, 2, False)
    assert [one.node for one in found.now.pods] == ["n1", ""]
    assert found.now.pods[1].codes == ("INSUFFICIENT",)


def test_added_nodes_take_pods() -> None:
    found = asked(live(h100("n1")), train(2), add=["h100x8:1"])

    assert starts(found) == (1, 2)
    assert found.all_start
    assert [(one.node, one.like) for one in found.added] == [("n1-new-1", "n1")]


def test_waiting_pods_of_the_cluster_come_first() -> None:
    found = asked(live(h100("n1"), pods=[pod_json("w", gpus=8)]), train(1), add=["n1:1"])

    assert starts(found) == (0, 1)
    assert found.now.others_wait == 0
    found = asked(live(pods=[pod_json("w", gpus=8)]), train(1))
    assert (found.now.starts, found.now.others_wait) == (0, 1)


def test_placement_that_is_not_written_yet_holds_its_gpus() -> None:
    waiting = pod_json("w", gpus=8)
    state = live(
        h100("n1"),
        pods=[waiting],
        assumed=(Assumed(pod=pod("w", gpus=8), node_name="n1", devices=Devices()),),
    )

    assert asked(state, train(1)).now.starts == 0


def test_drained_pods_move_where_there_is_room() -> None:
    pods = [running("a-1", "n1", gpus=4), running("b-1", "n1", gpus=8)]

    found = asked(live(h100("n1"), h100("n2"), pods=pods[:1]), train(1), drain=["n1"])

    assert places(found) == {"a-1": "n2"}
    assert starts(found) == (1, 0)
    assert set(found.change.pods[0].codes) == {"INSUFFICIENT", "NODE_UNSCHEDULABLE"}  # type: ignore[union-attr]  # there is a change
    found = asked(live(h100("n1"), pods=pods[1:]), drain=["n1"])
    assert places(found) == {"b-1": "waits"}
    assert (found.all_start, found.moves[0].codes) == (False, ("NODE_UNSCHEDULABLE",))


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        pytest.param({"owner": ""}, "NO_CONTROLLER", id="bare"),
        pytest.param({"labels": {"app": "kept"}}, "DISRUPTION_BUDGET", id="budget"),
        pytest.param({"labels": {"app": "kept", "x": "y"}}, "DISRUPTION_BUDGET", id="two-budgets"),
    ],
)
def test_pod_that_cannot_be_evicted_stays(fields: Json, code: str) -> None:
    state = live(
        h100("n1"),
        h100("n2"),
        pods=[running("a-1", "n1", gpus=4, **fields)],
        budgets=[budget("kept", 0, app="kept"), budget("twice", 1, x="y")],
    )

    found = asked(state, drain=["n1"])

    assert places(found) == {"a-1": "stays"}
    assert found.moves[0].codes == (code,)
    assert found.failed == ("n1 is not drained: team/a-1 cannot leave it",)
    assert not found.all_start


def test_budget_is_used_up_by_pods_that_wait() -> None:
    pods = [running(f"a-{at}", "n1", gpus=4, labels={"app": "a"}) for at in range(2)]
    state = live(h100("n1"), h100("n2"), pods=pods, budgets=[budget("a", 1, app="a")])

    assert places(asked(state, drain=["n1"])) == {"a-0": "n2", "a-1": "n2"}
    state = live(h100("n1"), pods=pods, budgets=[budget("a", 1, app="a")])
    assert places(asked(state, drain=["n1"])) == {"a-0": "waits", "a-1": "stays"}


def test_budget_allows_more_as_waiting_pods_start() -> None:
    """Two of three are healthy, which is too few; on the added node the third one starts."""
    pods = [
        *(running(f"a-{at}", "n1", gpus=4, labels={"app": "a"}) for at in range(2)),
        pod_json("a-2", owner="ReplicaSet/web", gpus=4, labels={"app": "a"}),
    ]
    state = live(h100("n1"), pods=pods, budgets=[budget("a", 0, app="a")])
    state = msgspec.structs.replace(state, health={"team/a": Health(2, 3)})

    assert places(asked(state, drain=["n1"])) == {"a-0": "stays", "a-1": "stays"}
    found = asked(state, drain=["n1"], add=["n1:1"])
    assert places(found) == {"a-0": "stays", "a-1": "stays"}
    state = msgspec.structs.replace(state, health={"team/a": Health(2, 2)})
    found = asked(state, drain=["n1"], add=["n1:1"])
    assert places(found) == {"a-0": "n1-new-1", "a-1": "waits"}


def test_daemons_stay_and_ended_pods_free_their_gpus() -> None:
    pods = [
        running("daemon", "n1", owner="DaemonSet/d"),
        running("gone", "n2", gpus=8, deleting=True),
    ]

    found = asked(live(h100("n1"), h100("n2"), pods=pods), drain=["n1", "n2"])

    assert (found.moves, found.failed, found.all_start) == ((), (), True)


def test_volume_in_a_zone_keeps_its_pod_waiting() -> None:
    """The manifest's claim exists, so it stays bound to its volume."""
    zones = {"n1": "eu-1b", "n2": "eu-1a"}
    nodes = [node(name, gpus=8, labels={**H100, ZONE: zone}) for name, zone in zones.items()]
    storage = (
        claim("data", volume="pv"),
        volume("pv", zone="eu-1a", for_claim="team/data", claim_uid="uid-data"),
    )
    state = live(*nodes, pods=[running("a-1", "n2", gpus=1, spec=uses("data"))], storage=storage)
    another = written_pod("p", spec(GPU, **uses("data")))

    found = asked(state, claim_json("data"), another, drain=["n2"])

    assert places(found) == {"a-1": "waits"}
    assert found.moves[0].codes == ("NODE_UNSCHEDULABLE", "VOLUME_AFFINITY")
    assert [one.node for one in found.now.pods] == ["n2"]


def test_unreadable_pod_is_named() -> None:
    state = live(h100("n1"), pods=[running("a-1", "n1")])
    state = msgspec.structs.replace(state, recreated={})

    assert asked(state, drain=["n1"]).moves[0].codes == ("NOT_READ",)


# --- MIG layouts ---------------------------------------------------------------------------------


def test_owner_template_is_preferred_to_the_pod() -> None:
    claims = [{"metadata": {"name": "data"}}]
    owner = {
        "apiVersion": "apps/v1",
        "metadata": {"name": "db", "namespace": "team"},
        "spec": {
            "template": {"metadata": {"annotations": {"a": "b"}}, "spec": spec(GPU)},
            "volumeClaimTemplates": claims,
        },
    }

    planned = from_owner(pod("db-0", owner="StatefulSet/db", labels={"x": "y"}), owner)

    assert planned.name == "db-0"
    assert planned.raw["metadata"]["annotations"] == {"a": "b"}
    assert planned.raw["metadata"]["labels"] == {"x": "y"}
    assert planned.raw["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    ]
    raw = pod_json("web-1", owner="ReplicaSet/web", node="n1", priority=7)
    again = from_pod(pod("web-1", owner="ReplicaSet/web"), raw)
    assert again.raw["metadata"]["generateName"] == "web-"
    assert not {"nodeName", "priority"}.intersection(again.raw["spec"])


# --- the manifest --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "count"),
    [
        pytest.param(train(1, 1), 3, id="job"),
        pytest.param(workload("Deployment", "w", spec(GPU), replicas=1), 3, id="deployment"),
        pytest.param(
            workload("StatefulSet", "w", spec(GPU), podManagementPolicy="Parallel"), 3, id="set"
        ),
    ],
)
def test_replicas_replace_those_of_the_manifest(one: Json, count: int) -> None:
    assert asked(live(h100("n1")), one, replicas=count).now.asked == count


def test_existing_workload_gets_only_what_it_lacks() -> None:
    pods = [pod_json(f"web-{at}", node="n1", owner="Deployment/web@7d9", gpus=1) for at in range(2)]

    found = asked(live(h100("n1"), pods=pods), workload("Deployment", "web", spec(GPU), replicas=3))

    assert (found.now.asked, found.now.starts) == (1, 1)
    assert found.notes == (
        "Deployment team/web exists with 2 pods; 1 more would be created (a change of its template"
        " is not considered)",
    )


def test_existing_pod_is_not_created_again() -> None:
    raw = pod_json("a", node="n1", gpus=1)

    assert asked(live(h100("n1"), pods=[raw]), raw).now.asked == 0
    assert asked(live(h100("n1")), raw).now.starts == 1


@pytest.mark.parametrize(
    ("manifest", "replicas", "message"),
    [
        pytest.param(
            [written_pod("p", spec(GPU))],
            2,
            "--replicas needs a manifest with one Deployment, StatefulSet, ReplicaSet or Job; this"
            " one has none",
            id="nothing-to-scale",
        ),
        pytest.param(
            [train(), {**train(), "metadata": {"name": "b"}}],
            2,
            "--replicas needs a manifest with one Deployment, StatefulSet, ReplicaSet or Job; this"
            " one has 2",
            id="two-to-scale",
        ),
        pytest.param(
            [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}],
            None,
            "f:0 (Node n): kind: nodes come from the cluster; write --add-nodes SHAPE:N",
            id="node",
        ),
        pytest.param(
            [train(namespace="nope")],
            None,
            "f:0 (Job train): metadata.namespace: namespace nope does not exist; pass -n NS",
            id="namespace",
        ),
    ],
)
def test_wrong_manifest_is_one_line(
    manifest: list[Json], replicas: int | None, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        asked(live(h100("n1")), *manifest, replicas=replicas)

    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"drain": ["n9"]}, "--drain n9: no node n9; there are: n1", id="drain"),
        pytest.param(
            {"layout": ["n9=1g.10gb"]}, "--layout n9: no node n9; there are: n1", id="cut"
        ),
    ],
)
def test_unknown_node_is_one_line(change: Json, message: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(live(h100("n1")), **change)

    assert str(caught.value) == message


def test_limits_and_classes_of_the_cluster_apply() -> None:
    """Pods of a higher priority preempt; a LimitRange refuses; both are only in the cluster."""
    meta = {"name": "high", "namespace": "team"}
    bounds = [{"type": "Container", "max": {GPU: "4"}}]
    documents = (
        Document(place="c", raw={"kind": "PriorityClass", "metadata": meta, "value": 100}),
        Document(
            place="c", raw={"kind": "LimitRange", "metadata": meta, "spec": {"limits": bounds}}
        ),
    )
    state = live(h100("n1"), pods=[running("low", "n1", gpus=8)])
    state = msgspec.structs.replace(state, documents=documents)

    high = asked(state, written_pod("p", spec(GPU, 4, priorityClassName="high")))
    large = asked(state, written_pod("p", spec(GPU, 8)))

    assert (high.now.starts, high.now.preempted) == (1, ("team/low",))
    assert large.now.pods[0].reason.startswith("refused at admission: maximum nvidia.com/gpu")


# --- text ----------------------------------------------------------------------------------------


def drained_with_new_nodes() -> WhatIf:
    """The example of docs/whatif.md."""
    pods = [
        running("vllm-0", "h100-07", gpus=2, owner="StatefulSet/vllm"),
        running("infer-0", "h100-07", gpus=2, labels={"app": "i"}, owner="StatefulSet/infer"),
        running("train-3", "h100-08", gpus=5),
        running("exp-9", "h100-09", gpus=4),
    ]
    nodes = [h100(f"h100-0{number}") for number in (7, 8, 9)]
    state = live(*nodes, pods=pods, budgets=[budget("infer", 0, app="i")])
    return asked(state, train(2), replicas=4, add=["h100x8:3"], drain=["h100-07"])


@pytest.mark.parametrize("width", [40, 60, 80])
def test_both_situations_stand_side_by_side(width: int) -> None:
    lines = printed(render(drained_with_new_nodes()), width)

    assert max(map(len, lines)) <= width
    assert "team/vllm-0" in "\n".join(lines)


def test_table_fits_60_columns() -> None:
    lines = printed(render(drained_with_new_nodes()), 60)

    assert lines[:6] == [
        "                       NOW     WITH THE CHANGE",
        "starts at once         0 of 4  3 of 4",
        "waits                  4       1",
        "others that must move  -       2 pods, 1 cannot",
        "free afterwards        11      5",
        "largest block          4 GPUs  4 GPUs",
    ]
    assert ["team/vllm-0", "h100-07", "h100-08"] in [line.split() for line in lines]
    assert lines[-1].endswith("Exit 2: not all start")


def test_namespace_of_the_manifest_may_be_new() -> None:
    job = train(1, namespace="new")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}

    assert asked(live(h100("n1")), space, job).now.starts == 1
