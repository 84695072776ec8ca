"""What the simulator plays around the decision: admission, existing pods, other schedulers."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpuctl.simulate.apiserver_defaults import Priorities
from gpuctl.simulate.manifests import Document
from tests.unit.gpuctl.cli import (
    GPU,
    MIG_1G,
    MIG_2G,
    Json,
    gpuctl,
    node,
    places,
    pod,
    rows,
    spec,
    workload,
)


def namespace(name: str, **meta: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **meta}}


def mapped(name: str, text: str, **meta: Any) -> Json:
    return pod(name, spec(), annotations={"gpu-scheduling-map": text}, **meta)


def priority_class(name: str, value: int, **more: Any) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **more,
    }


def test_pods_that_have_a_node_hold_what_they_asked_for() -> None:
    holder = pod("holder", spec(GPU, 3, nodeName="n1"))

    found = rows(node("n1", gpu=4), holder, pod("a", spec(GPU, 1)), pod("b", spec(GPU, 1)))

    assert places(found) == {"a": "n1", "b": None}


def test_a_pod_that_ended_holds_nothing() -> None:
    done = {**pod("done", spec(GPU, 4, nodeName="n1")), "status": {"phase": "Succeeded"}}

    assert places(rows(node("n1", gpu=4), done, pod("a", spec(GPU, 4)))) == {"a": "n1"}


def test_pending_pod_of_a_live_dump_is_not_admitted_again() -> None:
    waiting = pod("old", spec(MIG_2G, 1), uid="1", creationTimestamp="2026-01-01T00:00:00Z")

    (row,) = rows(node("n1", mig_1g=4), waiting)

    assert (row["node"], row["requested"]) == (None, {MIG_2G: 1})


def test_a_dump_of_a_running_workload_is_not_expanded_a_second_time() -> None:
    owner = {"kind": "ReplicaSet", "name": "web-abc", "uid": "u", "controller": True}
    live = pod(
        "web-abc-x",
        spec(GPU, 1, nodeName="n1"),
        uid="1",
        ownerReferences=[owner],
        labels={"pod-template-hash": "abc"},
    )
    web = workload("Deployment", "web", spec(GPU, 1), replicas=1)
    text = "\n---\n".join(yaml.safe_dump(each) for each in (node("n1", gpu=4), live, web))

    result = gpuctl("simulate", "-", "-o", "json", stdin=text)

    assert result.out.strip() == "[]"
    assert result.err == (
        "gpuctl simulate: Deployment default/web: its pods are in the input, so its template is"
        " not expanded\n"
    )


def test_ordered_stateful_set_stops_at_its_first_waiting_pod() -> None:
    found = rows(node("n1", gpu=2), workload("StatefulSet", "s", spec(GPU, 1), replicas=4))

    assert places(found) == {"s-0": "n1", "s-1": "n1", "s-2": None, "s-3": None}
    assert found[3]["requested"] == {GPU: 1}
    assert found[3]["reason"] == (
        "not created yet: StatefulSet s starts its pods one by one (podManagementPolicy:"
        " OrderedReady) and s-2 does not run"
    )


def test_a_parallel_stateful_set_creates_all_its_pods() -> None:
    parallel = workload(
        "StatefulSet", "s", spec(GPU, 1), replicas=3, podManagementPolicy="Parallel"
    )

    found = rows(node("n1", gpu=1), parallel)

    assert "Insufficient nvidia.com/gpu" in found[2]["reason"]


def test_a_gated_pod_waits_without_a_decision_and_claims_nothing() -> None:
    gated = pod("a", spec(MIG_2G, 1, schedulingGates=[{"name": "hold"}]))

    found = rows(node("n1", mig_2g=1, mig_1g=1), gated, pod("b", spec(MIG_2G, 1)))

    assert found[0]["reason"] == "Scheduling is blocked due to non-empty scheduling gates"
    assert found[1]["granted"] == {MIG_2G: 1}


def test_a_bad_map_is_refused_at_admission_with_its_line() -> None:
    (row,) = rows(node("n1"), mapped("a-0", "0=n1:0\n1=n1"))

    assert row["node"] is None
    assert row["reason"].startswith("refused at admission: gpu-scheduling-map line 2: ")


def test_a_forged_annotation_is_taken_away_and_the_author_is_told() -> None:
    forged = pod("a", spec(GPU, 1), annotations={"gpu-scheduler.io/devices": "gpu:7"})

    (row,) = rows(node("n1", gpu=1), forged)

    assert row["devices"] == "gpu x 1"
    assert "annotation gpu-scheduler.io/devices is removed" in row["reason"]


@pytest.mark.parametrize(
    ("options", "label", "expected"),
    [
        pytest.param((), None, "n1", id="all-by-default"),
        pytest.param(("--maps-allow", "labelled"), None, None, id="labelled-without-the-label"),
        pytest.param(("--maps-allow", "labelled"), "allowed", "n1", id="labelled-with-the-label"),
        pytest.param(("--maps-allow", "none"), "allowed", None, id="none"),
    ],
)
@pytest.mark.contract("S2-B17")
def test_namespaces_allowed_to_use_maps(
    options: tuple[str, ...], label: str | None, expected: str
) -> None:
    labels = {"gpu-scheduler.io/maps": label} if label else {}
    space = namespace("team", labels=labels)

    found = rows(node("n1"), space, mapped("a-0", "0=n1:1", namespace="team"), options=options)

    assert places(found) == {"a-0": expected}


FOREIGN = {**spec(MIG_2G, 1), "schedulerName": "default-scheduler"}


@pytest.mark.parametrize(
    ("options", "space", "granted"),
    [
        pytest.param((), {}, {}, id="ours-leaves-others-alone"),
        pytest.param(("--fallback-scope", "all"), {}, {MIG_1G: 1}, id="all"),
        pytest.param(
            (), {"gpu-scheduler.io/mig-fallback": "enabled"}, {MIG_1G: 1}, id="namespace-asked"
        ),
        pytest.param(
            ("--fallback-scope", "all"), {"gpu-webhook": "disabled"}, {}, id="namespace-opted-out"
        ),
    ],
)
@pytest.mark.contract("S0-18")
def test_pods_with_fallback(options: tuple[str, ...], space: Json, granted: Json) -> None:
    found = rows(
        node("n1", mig_1g=1),
        namespace("team", labels=space),
        pod("a", FOREIGN, namespace="team"),
        options=options,
    )

    assert found[0]["granted"] == granted


def test_pods_of_another_scheduler_are_placed_with_a_remark() -> None:
    found = rows(node("n1", mig_2g=1), pod("theirs", FOREIGN), pod("ours", spec(MIG_2G, 1)))

    assert places(found) == {"theirs": "n1", "ours": None}
    assert found[0]["reason"] == (
        "placed by gpu-scheduler's rules; in a cluster default-scheduler decides"
    )


def test_a_map_on_a_pod_of_another_scheduler_means_nothing() -> None:
    theirs = pod("a-0", FOREIGN, annotations={"gpu-scheduling-map": "0=elsewhere:0"})

    assert places(rows(node("n1", mig_2g=1), theirs)) == {"a-0": "n1"}


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        pytest.param({"priorityClassName": "high"}, 1000, id="by-class"),
        pytest.param({"priorityClassName": "system-node-critical"}, 2_000_001_000, id="built-in"),
        pytest.param({}, 7, id="global-default"),
        pytest.param({"priorityClassName": "high", "priority": 1000}, 1000, id="said-twice"),
    ],
)
def test_a_priority_class_gives_a_pod_its_priority(wanted: Json, value: int) -> None:
    classes = [priority_class("high", 1000), priority_class("ordinary", 7, globalDefault=True)]
    documents = [Document(place="f: document 1", raw=raw) for raw in classes]

    assert Priorities(documents).of(wanted, documents[0], "") == value


def test_the_global_default_class_counts_for_pods_without_one() -> None:
    ordinary = priority_class("ordinary", 7, globalDefault=True)

    found = rows(node("n1", gpu=1), ordinary, pod("a", spec(GPU, 1, priority=7)))

    assert places(found) == {"a": "n1"}


def test_requests_default_to_limits_and_allocatable_to_capacity() -> None:
    sized = spec(GPU, 1)
    sized["containers"][0]["resources"]["limits"]["memory"] = "8Gi"
    small = {**node("n1"), "status": {"capacity": {GPU: 1, "memory": "4Gi"}}}

    (row,) = rows(small, pod("a", sized))

    assert "Insufficient memory (need 8Gi; best node has 4Gi free)" in row["reason"]


@pytest.mark.contract("S2-B9")
def test_deployments_and_indexed_jobs_take_the_lines_of_a_map() -> None:
    text = {"gpu-scheduling-map": "0=n1:0\n1=n2:1"}

    found = rows(
        node("n1"),
        node("n2"),
        workload("Deployment", "web", spec(), text, replicas=3),
        workload(
            "Job",
            "task",
            spec(),
            {"gpu-scheduling-map": "0=n1:4\n1=n2:5"},
            completions=2,
            parallelism=2,
            completionMode="Indexed",
        ),
    )

    web, task = found[:3], found[3:]
    assert [(row["node"], row["cudaVisibleDevices"]) for row in web] == [
        ("n1", "0"),
        ("n2", "1"),
        (None, None),
    ]
    assert "all 2 indexes of gpu-scheduling-map are held" in web[2]["reason"]
    assert [row["cudaVisibleDevices"] for row in task] == ["4", "5"]


@pytest.mark.contract("S2-B6")
def test_two_workloads_with_the_same_map_do_not_share_a_device() -> None:
    found = rows(
        node("n1"),
        mapped("a-0", "0=n1:0", namespace="one"),
        mapped("a-0", "0=n1:0", namespace="two"),
    )

    assert [row["node"] for row in found] == ["n1", None]
    assert "GPU 0 is held by a pod that does not share it" in found[1]["reason"]


def test_a_configuration_file_has_its_say_and_an_option_the_last_word(tmp_path: Any) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("maps: {allow: none}\n")
    world = (node("n1"), mapped("a-0", "0=n1:1"))

    by_file = rows(*world, options=("--config", str(config)))
    by_option = rows(*world, options=("--config", str(config), "--maps-allow", "all"))

    assert [places(by_file), places(by_option)] == [{"a-0": None}, {"a-0": "n1"}]
