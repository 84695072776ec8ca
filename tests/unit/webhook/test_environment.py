"""CUDA_VISIBLE_DEVICES for mapped pods: which containers, which value, which form."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import names
from scheduler.model.admission import Answer, NodeKind
from tests.unit.webhook.pods import (
    MIG_1G,
    answer,
    container,
    environment,
    gpus,
    patched,
    pod,
    rewrite,
    run,
)
from webhook.mutate import Config, Request, review

SEED_MAP = "0=node1:0,1\n1=node2:2\n2=node3:0,1,2\n3=node4:3\n4=node4:3"
KEY = "@cuda-visible-devices"


@pytest.mark.contract("S2-1", "S2-14", "S2-19")
@pytest.mark.parametrize(
    ("name", "value"),
    [("w-0", "0,1"), ("w-1", "2"), ("w-2", "0,1,2"), ("w-3", "3"), ("w-4", "3")],
)
def test_the_reference_maps_pods_get_their_devices(name: str, value: str) -> None:
    """The value is the map's, without asking anybody."""
    body = pod(name=name, map_text=SEED_MAP, owner="StatefulSet")

    assert environment(patched(body)) == {"app": value}


@pytest.mark.contract("S2-14")
def test_every_container_init_and_sidecar_too_sees_the_devices() -> None:
    """Without device requests the runtime shows all GPUs to everybody, so the map limits all."""
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
        {"name": names.CUDA_ENV, "value": "0,1"},
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
        env += [{"name": names.CUDA_ENV, **entry}, {"name": "B", "value": "$(A)"}]
    body = pod(container(env=env), map_text=SEED_MAP)

    result = patched(body)["spec"]["containers"][0]["env"]
    (warning,) = run(body).warnings

    ours = {"name": names.CUDA_ENV, "value": "0,1"}
    assert result == [ours if entry["name"] == names.CUDA_ENV else entry for entry in env]
    assert warning.startswith(f'container "app": CUDA_VISIBLE_DEVICES ({said}')
    assert warning.isprintable()
    assert len(warning) < 256


def test_an_entry_that_is_already_right_is_left_alone_in_silence() -> None:
    """A second call changes nothing and warns of nothing."""
    body = pod(container(env=[{"name": names.CUDA_ENV, "value": "0,1"}]), map_text=SEED_MAP)

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
            pod(name="", owner="Job", labels={names.JOB_INDEX: "2"}, map_text=SEED_MAP),
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


def test_an_index_without_a_line_is_told_to_the_user() -> None:
    """The pod will wait, and its author learns why when it is created."""
    outcome = run(pod(name="w-7", owner="StatefulSet", map_text=SEED_MAP))

    assert outcome.warnings == ("gpu-scheduling-map has no line for the pod's index 7",)
    assert "No GPU assignment for pod index 7" in outcome.log


def test_a_pod_that_is_already_on_a_node_never_waits_for_an_annotation() -> None:
    """Nobody binds it, so the entry would read as empty and hide every GPU."""
    body = pod(name="", owner="ReplicaSet", nodeName="node1", map_text=SEED_MAP)

    outcome = run(body)

    assert outcome.patch == ()
    assert "spec.nodeName is given" in outcome.warnings[0]


DUO = (
    container("log"),
    container("serve", gpus(1)),
    container("train", gpus(2)),
)
DUO_MAP = "0=gpu-a:3,1,2"
NOTHING = {"prep": None, "log": None, "serve": None, "train": None}


def duo(**more: Any) -> dict[str, Any]:
    """The pod of field case C17."""
    return pod(*DUO, init=[container("prep")], **{"name": "duo-0", "map_text": DUO_MAP, **more})


@pytest.mark.parametrize(
    ("said", "values"),
    [
        pytest.param(
            answer(kinds={"gpu-a": "numbered"}), {"serve": "3", "train": "1,2"}, id="numbered"
        ),
        pytest.param(answer(kinds={"gpu-a": "counted"}), {}, id="counted"),
        pytest.param(answer(kinds={"gpu-a": "unknown"}), {}, id="unknown-node"),
        pytest.param(answer(), {}, id="node-not-in-the-answer"),
        pytest.param(None, {}, id="no-answer"),
    ],
)
def test_requesting_containers_share_the_devices_only_on_numbered_nodes(
    said: Answer | None, values: dict[str, str]
) -> None:
    """Elsewhere a container numbers its GPUs from 0, and a host's number would hide them."""
    assert environment(patched(duo(), said)) == NOTHING | values


@pytest.mark.parametrize(
    ("said", "warned"),
    [
        pytest.param(answer(kinds={"gpu-a": "counted"}), False, id="counted"),
        pytest.param(answer(kinds={"gpu-a": "numbered"}), False, id="numbered"),
        pytest.param(answer(kinds={"gpu-a": "unknown"}), True, id="unknown"),
        pytest.param(None, True, id="no-answer"),
    ],
)
def test_a_variable_that_might_have_been_set_is_explained(
    said: Answer | None, warned: bool
) -> None:
    """Nothing on a counted node is normal; nothing for want of knowledge is not."""
    assert [w.startswith("CUDA_VISIBLE_DEVICES is not set") for w in run(duo(), said).warnings] == [
        True
    ] * warned


TWO_NODES = "0=gpu-a:0,1,2\n1=gpu-b:0,1,2"


@pytest.mark.parametrize(
    ("kinds", "values"),
    [
        pytest.param(
            {"gpu-a": "numbered", "gpu-b": "numbered"},
            {"serve": KEY + ".0", "train": KEY + ".1"},
            id="all-numbered",
        ),
        pytest.param({"gpu-a": "numbered", "gpu-b": "counted"}, {}, id="one-is-counted"),
        pytest.param({"gpu-a": "numbered"}, {}, id="one-is-unknown"),
    ],
)
def test_an_assigned_pod_reads_its_shares_where_every_node_numbers(
    kinds: dict[str, str], values: dict[str, str]
) -> None:
    """The line is chosen at bind, so the form must suit every line."""
    body = duo(name="", owner="ReplicaSet", map_text=TWO_NODES)

    outcome = run(body, answer(kinds=kinds))

    assert environment(patched(body, answer(kinds=kinds))) == NOTHING | values
    assert bool(outcome.warnings) is not bool(values)


def test_a_single_requesting_container_reads_the_plain_key() -> None:
    """One container needs no position."""
    body = pod(container(limits=gpus(2)), name="", owner="ReplicaSet", map_text="0=gpu-a:0,1")

    assert environment(patched(body, answer(kinds={"gpu-a": "numbered"}))) == {"app": KEY}


@pytest.mark.parametrize(
    ("mode", "limits", "kind", "value"),
    [
        pytest.param("auto", None, "numbered", "3,1", id="auto-no-request"),
        pytest.param("auto", gpus(2), "numbered", "3,1", id="auto-numbered"),
        pytest.param("auto", gpus(2), "counted", None, id="auto-counted"),
        pytest.param("index", gpus(2), "counted", "3,1", id="index-counted"),
        pytest.param("index", gpus(2), "unknown", "3,1", id="index-unknown"),
        pytest.param("index", None, "counted", "3,1", id="index-no-request"),
        pytest.param("local", gpus(2), "counted", "0,1", id="local-counted"),
        pytest.param("local", gpus(2), "numbered", "0,1", id="local-numbered"),
        pytest.param("local", None, "counted", "0,1", id="local-no-request"),
        pytest.param("none", gpus(2), "numbered", None, id="none-with-request"),
        pytest.param("none", None, "numbered", None, id="none-no-request"),
    ],
)
def test_the_users_mode_decides_the_numbering(
    mode: str, limits: dict[str, str] | None, kind: str, value: str | None
) -> None:
    """auto is right by itself; the others are for images that know better."""
    body = pod(
        container(limits=limits), map_text="0=gpu-a:3,1", annotations={names.CUDA_MODE: mode}
    )

    assert environment(patched(body, answer(kinds={"gpu-a": kind}))) == {"app": value}


def test_local_numbers_need_no_index() -> None:
    """A share from 0 depends on the request alone."""
    body = duo(
        name="", owner="ReplicaSet", map_text=TWO_NODES, annotations={names.CUDA_MODE: "local"}
    )

    assert environment(patched(body)) == NOTHING | {"serve": "0", "train": "0,1"}


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({"limits": {MIG_1G: "1"}, "requests": {MIG_1G: "1"}}, id="mig"),
        pytest.param({"limits": {"nvidia.com/gpu.shared": "1"}}, id="renamed-shared-gpu"),
        pytest.param({"claims": [{"name": "g"}]}, id="claim"),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "index", "local"])
def test_devices_that_others_hand_out_get_no_variable(resources: Any, mode: str) -> None:
    """The kubelet picks MIG instances, CDI shows claimed devices."""
    device = container("dev") | {"resources": resources}
    body = pod(device, container("log"), map_text=SEED_MAP, annotations={names.CUDA_MODE: mode})

    assert environment(patched(body, answer(kinds={"node1": "numbered"}))) == {
        "dev": None,
        "log": None,
    }


def test_an_init_container_that_ends_gives_its_devices_to_the_next() -> None:
    """The pod holds as many devices as run at once, and the map names that many."""
    body = pod(
        container("train", gpus(1)),
        init=[container("warm", gpus(2)), container("side", gpus(1), restartPolicy="Always")],
        map_text="0=gpu-a:5,4",
    )

    assert environment(patched(body, answer(kinds={"gpu-a": "numbered"}))) == {
        "warm": "5,4",
        "side": "5",
        "train": "4",
    }


def test_a_zero_request_is_no_request() -> None:
    """It holds nothing, so the pod counts as one that sees all GPUs."""
    body = pod(container(limits={names.GPU: "0"}), map_text=SEED_MAP)

    assert environment(patched(body)) == {"app": "0,1"}


def test_a_pod_without_a_map_keeps_its_own_value() -> None:
    """No assignment, no interference."""
    body = pod(container(env=[{"name": names.CUDA_ENV, "value": "7"}], limits=gpus(1)))

    assert run(body, answer()).patch == ()


@pytest.mark.contract("S2-B2")
def test_the_schedulers_name_is_configuration() -> None:
    """Neither webhook nor scheduler knows a name by heart."""
    body = pod(map_text=SEED_MAP, schedulerName="gpus-of-team-a")

    def reviewed(name: str) -> bool:
        config = Config(scheduler_name=name)
        return bool(review(body, Request(namespace="default"), None, config).patch)

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
def test_the_log_lines(body: Any, lines: list[str]) -> None:
    """Seed 002's lines, byte for byte."""
    assert list(run(body).log) == lines


def test_a_map_and_a_fallback_in_one_pod_both_happen() -> None:
    """A pod may name its node and still take the smaller slice there."""
    body = pod(container(limits={"nvidia.com/mig-2g.20gb": "1"}), map_text="0=node1:0")
    said = Answer(rewrites=(rewrite(),), node_kinds={"node1": NodeKind("real", "counted")})

    result = patched(body, said)

    assert environment(result) == {"app": None}
    assert result["spec"]["containers"][0]["resources"]["limits"] == {MIG_1G: "1"}
