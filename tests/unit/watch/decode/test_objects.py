"""From the API's bytes to the words of the model: what is kept, and what is read from where."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.model import well_known
from scheduler.model.pods.pod import Condition, HostPort, Owner
from scheduler.model.selector import Taint
from scheduler.plugins.node_ports import EVERY_ADDRESS
from scheduler.state import event as ev
from scheduler.watch.decode import nodes, objects, pods
from scheduler.watch.informers import PODS, every
from tests.builders import container, downward, literal, node, pod, pod_json


def read(document: dict[str, Any]) -> Any:
    return pods.to_pod(pods.POD.decode(msgspec.json.encode(document)))


@pytest.mark.parametrize("mark", ["pod-suspending-parent", "pod-group-name", "workload"])
def test_a_pod_with_only_an_annotation_of_kueue_is_known(mark: str) -> None:
    """Kueue writes no more into the template of a StatefulSet."""
    assert pod(annotations={f"kueue.x-k8s.io/{mark}": "it"}).names_kueue


def test_only_annotations_that_mean_something_are_kept() -> None:
    """Others can be large, and change often."""
    kept = {
        well_known.MAP: "0=a:0",
        well_known.DEVICES: "gpu:0",
        well_known.FALLBACK: "x",
        well_known.ORIGINAL: "y",
    }
    found = pod(annotations={**kept, "example.com/large": "x" * 10_000})

    assert found.annotations == kept


def test_a_pod_of_the_api_server_with_everything_missing_is_read() -> None:
    found = read({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}})

    assert (found.name, found.scheduler_name, found.phase) == ("x", "default-scheduler", "Pending")
    assert (found.requests, found.priority, found.owner, found.uid) == ({}, 0, None, "")


@pytest.mark.parametrize(
    "part",
    ["labels", "annotations", "ownerReferences", "creationTimestamp", "deletionTimestamp"],
)
def test_null_equals_missing_in_metadata(part: str) -> None:
    found = read({"metadata": {"name": "x", part: None}, "spec": {"containers": []}})

    assert found == read({"metadata": {"name": "x"}, "spec": {"containers": []}})


@pytest.mark.parametrize("part", ["env", "ports", "resources", "restartPolicy"])
def test_null_equals_missing_in_a_container(part: str) -> None:
    bare = {"name": "c"}

    assert pod(containers=[{**bare, part: None}]) == pod(containers=[bare])


@pytest.mark.parametrize(
    "part",
    ["nodeSelector", "overhead", "priority", "resources", "schedulingGates", "affinity"],
)
def test_null_equals_missing_in_a_spec(part: str) -> None:
    assert pod(spec={part: None}) == pod()


def test_reviewed_pod_gets_the_review_namespace_and_name_prefix() -> None:
    wire = pods.POD.decode(
        b'{"metadata":{"generateName":"web-"},"spec":{"containers":[{"name":"c"}]}}'
    )
    found = pods.to_pod(wire, "team")

    assert (found.namespace, found.name) == ("team", "web-")


def test_the_controlling_owner_counts_and_no_other() -> None:
    references = [
        {"kind": "Job", "name": "a", "uid": "1"},
        {"kind": "ReplicaSet", "name": "b", "uid": "2", "controller": True},
    ]
    document = pod_json()
    document["metadata"]["ownerReferences"] = references

    assert read(document).owner == Owner("ReplicaSet", "b", "2")
    document["metadata"]["ownerReferences"] = references[:1]
    assert read(document).owner is None


@pytest.mark.parametrize(
    ("env", "told", "key"),
    [
        pytest.param([], None, None, id="nothing"),
        pytest.param([literal("0,1")], "0,1", None, id="literal"),
        pytest.param([{"name": well_known.CUDA_ENV}], "", None, id="an-empty-value-hides-all"),
        pytest.param([literal("0"), literal("1")], "1", None, id="the-last-of-two-counts"),
        pytest.param([downward()], None, well_known.CUDA_VISIBLE_DEVICES, id="annotation"),
        pytest.param(
            [downward(well_known.CUDA_VISIBLE_DEVICES + ".1")],
            None,
            well_known.CUDA_VISIBLE_DEVICES + ".1",
            id="share",
        ),
        pytest.param([downward("example.com/mine")], None, None, id="foreign-annotation"),
        pytest.param([downward(), literal("3")], "3", None, id="literal-after-annotation"),
        pytest.param(
            [
                {
                    "name": well_known.CUDA_ENV,
                    "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                }
            ],
            None,
            None,
            id="secret",
        ),
        pytest.param([{"name": "OTHER", "value": "1"}], None, None, id="another-variable"),
    ],
)
def test_device_env_of_a_container(env: list[Any], told: str | None, key: str | None) -> None:
    [found] = pod(containers=[container(env=env)]).containers

    assert (found.cuda_literal, found.cuda_key) == (told, key)


def test_host_ports_of_the_host_network_and_addresses() -> None:
    ports: list[Any] = [
        {"containerPort": 80},
        {"containerPort": 1, "hostPort": 2, "hostIP": "10.0.0.1"},
    ]

    assert pod(ports=ports).host_ports == (HostPort("10.0.0.1", "TCP", 2),)
    assert pod(ports=ports, spec={"hostNetwork": True}).host_ports == (
        HostPort(EVERY_ADDRESS, "TCP", 80),
        HostPort("10.0.0.1", "TCP", 2),
    )


def test_own_condition_is_found_among_others() -> None:
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "PodScheduled", "status": "False", "reason": "R", "message": "M",
         "lastTransitionTime": "2026-11-27T10:00:00Z"},
    ]  # fmt: skip

    found = pod(status={"conditions": conditions}).condition
    assert found == Condition("False", "R", "M", "2026-11-27T10:00:00Z")
    assert pod().condition == Condition()


def test_node_allocatable_is_read() -> None:
    """Allocatable, never capacity (semantics case 21)."""
    wire = {
        "metadata": {"name": "n", "uid": "u", "labels": {"a": "b"}},
        "spec": {"unschedulable": True, "taints": [{"key": "k", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"nvidia.com/gpu": "8"},
            "allocatable": {"nvidia.com/gpu": "7", "cpu": "3920m", "memory": "1Ki"},
        },
    }
    found = nodes.to_node(nodes.NODE.decode(msgspec.json.encode(wire)))

    assert found.allocatable == {"nvidia.com/gpu": 7, "cpu": 3920, "memory": 1024}
    assert (found.unschedulable, found.taints) == (True, (Taint("k", "", "NoSchedule"),))
    assert (found.name, found.uid, found.labels) == ("n", "u", {"a": "b"})


def test_node_without_whole_gpus_is_still_kubelet_assigned() -> None:
    """Its GPUs are all cut, or differently in strategy ``single``: a map finds no GPU there."""
    wire = {
        "metadata": {"name": "n", "labels": {"nvidia.com/gpu.replicas": "0"}},
        "status": {"allocatable": {"cpu": "4"}},
    }
    found = nodes.to_node(nodes.NODE.decode(msgspec.json.encode(wire)))

    assert (found.is_index_assigned, found.gpu_count) == (False, 0)


def test_watch_lines_become_events() -> None:
    raw = msgspec.json.encode(pod_json("a"))
    bare = b'{"metadata":{"name":"n"}}'

    assert objects.pod_event(raw, False) == ev.PodUpdated(pod("a"))
    assert objects.pod_event(raw, True) == ev.PodDeleted("team-a")
    assert objects.node_event(bare, True) == ev.NodeDeleted("n")
    assert isinstance(objects.node_event(bare, False), ev.NodeUpdated)
    assert isinstance(objects.namespace_event(bare, False), ev.NamespaceUpdated)
    assert objects.namespace_event(bare, True) == ev.NamespaceDeleted("n")


def test_lists_become_one_event() -> None:
    raw = [msgspec.Raw(msgspec.json.encode(pod_json(name))) for name in "ab"]

    assert objects.pods_listed(raw) == ev.PodsReplaced((pod("a"), pod("b")))
    assert objects.nodes_listed([]) == ev.NodesReplaced(())
    assert objects.namespaces_listed([]) == ev.NamespacesReplaced(())


def test_every_schedulers_pods_are_watched_until_they_end() -> None:
    assert PODS.selector == "status.phase!=Succeeded,status.phase!=Failed"
    assert {source.kind for source in every("own")} == {
        "pods",
        "nodes",
        "namespaces",
        "podmigrations",
        "migpartitions",
        "podgroups",
        "podgroups.scheduling.k8s.io",
        "resourcequotas",
        "poddisruptionbudgets",
        "persistentvolumeclaims",
        "persistentvolumes",
        "storageclasses",
        "csidrivers",
        "csinodes",
        "csistoragecapacities",
        "volumeattachments",
        "deviceclasses",
        "resourceslices",
        "devicetaintrules",
        "resourceclaims",
    }
    assert {source.selector for source in every("own") if source is not PODS} == {""}


def test_without_moves_their_tickets_are_not_watched() -> None:
    """Without the right to list them a list would be rejected and repeated forever."""
    with_moves = {source.kind for source in every("own")}

    assert with_moves - {source.kind for source in every("own", migrations=False)} == {
        "podmigrations"
    }


def test_groups_of_other_schedulers_are_watched_where_they_are_named() -> None:
    named = every("own", group_sources=("volcano", "kai", "grove", "kai"))

    assert {one.path for one in named} - {one.path for one in every("own")} == {
        "/apis/scheduling.volcano.sh/v1beta1/podgroups",
        "/apis/scheduling.run.ai/v2alpha2/podgroups",
        "/apis/scheduler.grove.io/v1alpha1/podgangs",
    }
    assert len({one.kind for one in named}) == len(named)


def test_invalid_quantity_is_an_error_and_not_zero() -> None:
    with pytest.raises(ValueError, match="'1K' is not a quantity"):
        node(memory="1K")
