"""The owner of a pod, its siblings, and which changes count."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.pods.pod import Container, Pod, Role
from scheduler.model.pods.pod_variants import with_resources
from tests.builders import GPU, MIG_1G, MIG_2G, PodFields, container, pod, pod_json

MAP = "0=gpu-a:0,1"


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        pytest.param("Deployment/web@r1", "Deployment/web@r2", True, id="revisions-of-a-rollout"),
        pytest.param("Deployment/web@r1", "Deployment/db@r1", False, id="two-deployments"),
        pytest.param("StatefulSet/w", "StatefulSet/w", True, id="one-set"),
        pytest.param("StatefulSet/w", "Job/w", False, id="kinds-differ"),
        pytest.param("ReplicaSet/web-r1", "ReplicaSet/web-r2", False, id="no-template-hash"),
    ],
)
def test_replicas_of_one_workload_are_siblings(one: str, other: str, alike: bool) -> None:
    first, second = pod("a", owner=one), pod("b", owner=other)

    assert (first.workload == second.workload) is alike


def test_workloads_of_two_namespaces_are_never_the_same() -> None:
    first = pod("a", namespace="one", owner="Deployment/web")
    second = pod("a", namespace="two", owner="Deployment/web")

    assert first.workload != second.workload


@pytest.mark.contract("S2-B17")
def test_two_tenants_with_the_same_map_text_do_not_share() -> None:
    first, second = (pod("w-0", namespace=name, map=MAP) for name in ("one", "two"))

    assert first.sharing != second.sharing


def test_bare_pods_of_a_namespace_share_by_the_maps_text() -> None:
    assert pod("w-0", map=MAP).sharing == pod("w-1", map=MAP).sharing
    assert pod("w-0", map=MAP).sharing != pod("w-1", map=MAP + ",2").sharing


def test_siblings_share_although_their_maps_differ_during_a_rollout() -> None:
    old = pod("w-0", owner="StatefulSet/w", map=MAP)
    new = pod("w-1", owner="StatefulSet/w", map="0=gpu-b:0")

    assert old.sharing == new.sharing


WAITING = [
    pytest.param({}, True, id="ours-and-pending"),
    pytest.param({"scheduler": "default-scheduler"}, False, id="another-scheduler"),
    pytest.param({"node": "n1"}, False, id="placed"),
    pytest.param({"phase": "Succeeded"}, False, id="ended"),
    pytest.param({"phase": "Failed"}, False, id="failed"),
    pytest.param({"deleting": True}, False, id="being-deleted"),
    pytest.param({"gates": ["a.example/hold"]}, False, id="gated"),
]


@pytest.mark.contract("S2-B2")
@pytest.mark.parametrize(("fields", "waits"), WAITING)
def test_which_pods_are_ours_to_place(fields: PodFields, waits: bool) -> None:
    assert pod(**fields).waits_for(well_known.SCHEDULER_NAME) is waits


def test_the_schedulers_name_is_not_written_into_the_code() -> None:
    assert pod(scheduler="another").waits_for("another")
    assert not pod().waits_for("another")


def test_own_condition_does_not_change_the_request() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    before, after = pod(gpus=1), pod(gpus=1, status={"conditions": [condition]})

    assert before != after
    assert before.decision_inputs() == after.decision_inputs()


CHANGED: list[PodFields] = [
    {"labels": {"app": "x"}},
    {"owner": "StatefulSet/w"},
    {"map": MAP},
    {"gates": ["a.example/hold"]},
    {"selector": {"zone": "a"}},
    {"tolerations": [{"operator": "Exists"}]},
]


@pytest.mark.parametrize("fields", CHANGED, ids=lambda fields: next(iter(fields)))
def test_every_field_read_by_a_decision_is_compared(fields: PodFields) -> None:
    assert pod(**fields).decision_inputs() != pod().decision_inputs()


def swapped(before: Pod, changes: dict[str, str]) -> dict[str, int]:
    return with_resources(before, changes).requests


def test_a_rewritten_pod_asks_for_the_other_tier_one_to_one() -> None:
    before = pod(requests={MIG_2G: 3, "cpu": "1"})

    assert swapped(before, {MIG_2G: MIG_1G}) == {MIG_1G: 3, "cpu": 1000}
    assert before.requests == {MIG_2G: 3, "cpu": 1000}


def test_a_rewritten_pod_asks_dra_for_the_other_tier_too() -> None:
    """Beside what is no GPU."""
    before = pod(requests={MIG_2G: 3, "example.com/nic": 1})

    [rewritten] = with_resources(before, {MIG_2G: MIG_1G}).containers

    assert {one.resource: one.count for one in rewritten.extended} == {
        MIG_1G: 3,
        "example.com/nic": 1,
    }
    assert len({one.position for one in rewritten.extended}) == 2


@pytest.mark.contract("S0-B7")
def test_a_container_that_has_the_target_already_gets_the_sum() -> None:
    assert swapped(pod(requests={MIG_2G: 1, MIG_1G: 2}), {MIG_2G: MIG_1G}) == {MIG_1G: 3}


@pytest.mark.contract("S0-B7")
def test_init_containers_are_rewritten_like_the_others() -> None:
    before = pod(
        containers=[container(requests={MIG_2G: 1})],
        init=[container("prep", requests={MIG_2G: 2})],
    )

    assert swapped(before, {MIG_2G: MIG_1G}) == {MIG_1G: 2}


def test_two_rewrites_of_one_pod_do_not_interfere() -> None:
    """2g becomes 1g while 1g becomes a whole GPU: a replaced request is not replaced again."""
    before = pod(requests={MIG_2G: 1, MIG_1G: 2})

    assert swapped(before, {MIG_2G: MIG_1G, MIG_1G: GPU}) == {MIG_1G: 1, GPU: 2}


def test_decoding_keeps_container_order() -> None:
    roles = [
        (one.name, one.role)
        for one in pod(
            init=[container("prep"), container("log", sidecar=True)],
            containers=[container("app")],
        ).containers
    ]

    assert roles == [("prep", Role.INIT), ("log", Role.SIDECAR), ("app", Role.APP)]


@pytest.mark.parametrize(
    "key",
    [
        well_known.TOPOLOGY_REQUIRED,
        well_known.TOPOLOGY_PREFERRED,
        well_known.KUEUE_TOPOLOGY_REQUIRED,
        well_known.KUEUE_TOPOLOGY_PREFERRED,
        well_known.DATA,
    ],
)
def test_pod_with_a_level_or_data_is_not_plain(key: str) -> None:
    assert pod(annotations={"example.com/note": "rack"}).is_plain
    assert not pod(annotations={key: "rack"}).is_plain


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param({"annotations": {well_known.RECLAIMABLE: "false"}}, id="reclaimable"),
        pytest.param({"annotations": {well_known.KUEUE_WORKLOAD: "w"}}, id="workload-of-kueue"),
        pytest.param({"labels": {"kueue.x-k8s.io/managed": "true"}}, id="managed-by-kueue"),
        pytest.param({"labels": {"kueue.x-k8s.io/podset": "main"}}, id="pod-set-of-kueue"),
    ],
)
def test_marks_of_a_quota_make_another_class(marks: PodFields) -> None:
    assert pod(**marks).equivalence_class != pod().equivalence_class


def test_a_pod_is_never_changed_in_place() -> None:
    with pytest.raises(AttributeError):
        pod().node_name = "n1"  # type: ignore[misc] # must fail
    assert msgspec.structs.replace(pod(), node_name="n1").node_name == "n1"
    assert Container(name="x") == Container(name="x")
    assert pod_json("x")["metadata"]["name"] == "x"
