"""CUDA_VISIBLE_DEVICES for mapped pods: which containers, which value, which form."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision
from tests.unit.webhook.pods import (
    answer,
    container,
    environment,
    gpus,
    patched,
    pod,
    run,
)
from webhook.mutate.pod_mutation import Config, PodMutation, Request

SEED_MAP = "0=node1:0,1\n1=node2:2\n2=node3:0,1,2\n3=node4:3\n4=node4:3"
KEY = "@cuda-visible-devices"


@pytest.mark.contract("S2-1", "S2-14", "S2-19")
@pytest.mark.parametrize(
    ("name", "value"),
    [("w-0", "0,1"), ("w-1", "2"), ("w-2", "0,1,2"), ("w-3", "3"), ("w-4", "3")],
)
def test_the_reference_maps_pods_get_their_devices(name: str, value: str) -> None:
    """The value comes from the map without a query."""
    body = pod(name=name, map_text=SEED_MAP, owner="StatefulSet")

    assert environment(patched(body)) == {"app": value}


@pytest.mark.contract("S2-14")
def test_every_container_init_and_sidecar_too_sees_the_devices() -> None:
    """The runtime shows all GPUs to containers without device requests, so the map limits all."""
    body = pod(
        container("app"),
        container("log"),
        init=[container("prep"), container("side", restartPolicy="Always")],
        map_text=SEED_MAP,
    )

    assert environment(patched(body)) == dict.fromkeys(["prep", "side", "app", "log"], "0,1")


def test_a_new_entry_goes_first_so_that_others_can_refer_to_it() -> None:
    """The kubelet expands $(VAR) only from earlier entries."""
    env = [{"name": "ARGS", "value": "--gpus=$(CUDA_VISIBLE_DEVICES)"}]

    result = patched(pod(container(env=env), map_text=SEED_MAP))

    assert result["spec"]["containers"][0]["env"] == [
        {"name": well_known.CUDA_ENV, "value": "0,1"},
        *env,
    ]


OWN_SECRET = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


@pytest.mark.contract("S2-B10", "S2-14")
@pytest.mark.parametrize(
    ("own", "said"),
    [
        pytest.param([{"value": "7"}], '"7"', id="value"),
        pytest.param([{"value": ""}], '""', id="empty-value"),
        pytest.param([{}], "another source", id="value-omitted-by-the-encoder"),
        pytest.param([OWN_SECRET], "another source", id="value-from"),
        pytest.param([{"value": "7"}, OWN_SECRET, {"value": "8"}], '"7"', id="duplicates"),
        pytest.param([{"value": "0,1"}, {"value": "8"}], '"8"', id="second-of-two-differs"),
        pytest.param([{"value": "7\x1b[2J" + "x" * 200}], r'"7\x1b', id="hostile-value"),
    ],
)
def test_an_existing_entry_is_replaced_in_its_place_with_a_warning(
    own: list[dict[str, Any]], said: str
) -> None:
    """All duplicates change, because the last one counts; neighbours stay where they are."""
    env = [{"name": "A", "value": "1"}]
    for entry in own:
        env += [{"name": well_known.CUDA_ENV, **entry}, {"name": "B", "value": "$(A)"}]
    body = pod(container(env=env), map_text=SEED_MAP)

    result = patched(body)["spec"]["containers"][0]["env"]
    (warning,) = run(body).warnings

    ours = {"name": well_known.CUDA_ENV, "value": "0,1"}
    assert result == [ours if entry["name"] == well_known.CUDA_ENV else entry for entry in env]
    assert warning.startswith(f'container "app": CUDA_VISIBLE_DEVICES ({said}')
    assert warning.isprintable()
    assert len(warning) < 256


def test_correct_entry_is_kept_without_warning() -> None:
    """A second call changes nothing and warns of nothing."""
    body = pod(container(env=[{"name": well_known.CUDA_ENV, "value": "0,1"}]), map_text=SEED_MAP)

    outcome = run(body)

    assert (outcome.patch, outcome.warnings) == ((), ())


@pytest.mark.contract("S2-B10")
@pytest.mark.parametrize("env", [pytest.param(None, id="null"), pytest.param([], id="empty")])
def test_a_missing_list_of_variables_is_made(env: Any) -> None:
    """A patch into a list that is not there would be refused, and the pod with it."""
    body = pod(container(env=env), map_text=SEED_MAP)

    assert environment(patched(body)) == {"app": "0,1"}


@pytest.mark.contract("S2-B9", "S2-5")
@pytest.mark.parametrize(
    ("body", "value"),
    [
        pytest.param(
            pod(name="", owner="ReplicaSet", map_text=SEED_MAP), KEY, id="deployment-before-a-name"
        ),
        pytest.param(
            pod(name="w-6bd69b846c-22222", owner="ReplicaSet", map_text=SEED_MAP),
            KEY,
            id="digits-of-a-hash",
        ),
        pytest.param(pod(name="", owner="Job", map_text=SEED_MAP), KEY, id="job-without-index"),
        pytest.param(
            pod(name="", owner="Job", labels={well_known.JOB_INDEX: "2"}, map_text=SEED_MAP),
            "0,1,2",
            id="indexed-job-by-its-label",
        ),
        pytest.param(pod(name="", map_text=SEED_MAP), KEY, id="bare-pod-with-a-generated-name"),
        pytest.param(pod(name="w-x", map_text=SEED_MAP), KEY, id="bare-pod-without-an-index"),
        pytest.param(
            pod(name="w-7", owner="StatefulSet", map_text=SEED_MAP), KEY, id="index-not-in-the-map"
        ),
    ],
)
def test_an_index_that_is_not_known_yet_is_read_from_an_annotation(body: Any, value: str) -> None:
    """The Binding writes it before the container can start."""
    assert environment(patched(body)) == {"app": value}


def test_index_without_a_line_warns_the_user() -> None:
    """The pod will wait, and its author learns why when it is created."""
    outcome = run(pod(name="w-7", owner="StatefulSet", map_text=SEED_MAP))

    assert outcome.warnings == ("gpu-scheduling-map has no line for the pod's index 7",)
    assert "No GPU assignment for pod index 7" in outcome.log


def test_pod_with_a_node_never_waits_for_an_annotation() -> None:
    """No Binding follows, so the entry would read as empty and hide every GPU."""
    body = pod(name="", owner="ReplicaSet", nodeName="node1", map_text=SEED_MAP)

    outcome = run(body)

    assert outcome.patch == ()
    assert "spec.nodeName is given" in outcome.warnings[0]


def test_a_pod_without_a_map_keeps_its_own_value() -> None:
    """No assignment, no interference."""
    body = pod(container(env=[{"name": well_known.CUDA_ENV, "value": "7"}], limits=gpus(1)))

    assert run(body, answer()).patch == ()


@pytest.mark.contract("S2-B2")
def test_the_schedulers_name_is_configuration() -> None:
    """Neither webhook nor scheduler knows a name by heart."""
    body = pod(map_text=SEED_MAP, schedulerName="gpus-of-team-a")

    def reviewed(name: str) -> bool:
        config = Config(scheduler_name=name)
        return bool(PodMutation(body, Request(namespace="default"), config).outcome(None).patch)

    assert reviewed("gpus-of-team-a")
    assert not reviewed("gpu-scheduler")


@pytest.mark.contract("S2-15")
@pytest.mark.parametrize(
    ("body", "lines"),
    [
        pytest.param(
            pod(map_text=SEED_MAP),
            [
                "Reviewing pod: default/w-0",
                "Injecting CUDA_VISIBLE_DEVICES=0,1 for pod w-0 (index 0)",
                "Created patch for pod w-0",
            ],
            id="literal",
        ),
        pytest.param(
            pod(name="", owner="ReplicaSet", map_text=SEED_MAP),
            [
                "Reviewing pod: default/w-6bd69b846c-",
                "Pod name not set, using generateName: w-6bd69b846c-",
                "Injecting CUDA_VISIBLE_DEVICES for pod w-6bd69b846c-, to be set when bound",
                "Created patch for pod w-6bd69b846c-",
            ],
            id="later",
        ),
        pytest.param(pod(), ["Reviewing pod: default/w-0"], id="nothing-to-do"),
    ],
)
def test_environment_log_lines(body: Any, lines: list[str]) -> None:
    """Seed 002's lines, byte for byte."""
    assert list(run(body).log) == lines


@pytest.mark.parametrize(
    ("said", "spec", "told"),
    [
        pytest.param(answer(may_map=False), {"nodeName": "node1"}, False, id="past-the-scheduler"),
        pytest.param(answer(may_map=False), {}, True, id="it-waits-until-its-namespace-may"),
        pytest.param(answer(may_map=True), {"nodeName": "node1"}, True, id="it-may-map"),
        pytest.param(None, {"nodeName": "node1"}, True, id="the-scheduler-is-silent"),
    ],
)
def test_unpermitted_map_is_ignored_on_a_pod_with_a_node(
    said: AdmissionDecision | None, spec: Any, told: bool
) -> None:
    outcome = run(pod(name="w-1", map_text="1=node1:2", **spec), said)

    assert bool(outcome.patch) is told
    assert any("may not use it" in warning for warning in outcome.warnings) is not told
