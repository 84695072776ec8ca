"""The variable where containers request GPUs, and where the user chose the numbering."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, NodeAssignment
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

SEED_MAP = "0=node1:0,1\n1=node2:2\n2=node3:0,1,2\n3=node4:3\n4=node4:3"
KEY = "@cuda-visible-devices"


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
def test_shared_devices_are_divided_only_on_index_assigned_nodes(
    said: AdmissionDecision | None, values: dict[str, str]
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
def test_omitted_variable_is_explained(said: AdmissionDecision | None, warned: bool) -> None:
    """No value on a kubelet-assigned node is normal; no value because of missing data is not."""
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
        container(limits=limits), map_text="0=gpu-a:3,1", annotations={well_known.CUDA_MODE: mode}
    )

    assert environment(patched(body, answer(kinds={"gpu-a": kind}))) == {"app": value}


def test_container_local_devices_need_no_index() -> None:
    """A share from 0 depends on the request alone."""
    body = duo(
        name="", owner="ReplicaSet", map_text=TWO_NODES, annotations={well_known.CUDA_MODE: "local"}
    )

    assert environment(patched(body)) == NOTHING | {"serve": "0", "train": "0,1"}


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param({"limits": {MIG_1G: "1"}, "requests": {MIG_1G: "1"}}, id="mig"),
        pytest.param({"limits": {"nvidia.com/gpu.shared": "1"}}, id="renamed-shared-gpu"),
        pytest.param({"limits": {"nvidia.com/mig-1g.5gb.shared": "1"}}, id="renamed-slice"),
        pytest.param({"limits": {"nvidia.com/small": "1"}}, id="renamed-to-any-name"),
        pytest.param({"claims": [{"name": "g"}]}, id="claim"),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "index", "local"])
def test_devices_that_others_hand_out_get_no_variable(resources: Any, mode: str) -> None:
    """The kubelet picks MIG instances, CDI shows claimed devices."""
    device = container("dev") | {"resources": resources}
    body = pod(
        device, container("log"), map_text=SEED_MAP, annotations={well_known.CUDA_MODE: mode}
    )

    assert environment(patched(body, answer(kinds={"node1": "numbered"}))) == {
        "dev": None,
        "log": None,
    }


def test_nvidia_network_device_is_no_gpu() -> None:
    card = container("app") | {"resources": {"limits": {"nvidia.com/hostdev": "1"}}}
    body = pod(card, map_text=SEED_MAP)

    assert environment(patched(body)) == {"app": "0,1"}


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
    body = pod(container(limits={well_known.GPU: "0"}), map_text=SEED_MAP)

    assert environment(patched(body)) == {"app": "0,1"}


def test_a_map_and_a_fallback_in_one_pod_both_happen() -> None:
    """A pod may name its node and still take the smaller slice there."""
    body = pod(container(limits={"nvidia.com/mig-2g.20gb": "1"}), map_text="0=node1:0")
    said = AdmissionDecision(
        rewrites=(rewrite(),), node_kinds={"node1": NodeAssignment("real", "counted")}
    )

    result = patched(body, said)

    assert environment(result) == {"app": None}
    assert result["spec"]["containers"][0]["resources"]["limits"] == {MIG_1G: "1"}


@pytest.mark.parametrize(
    ("mode", "kind", "is_warned"),
    [
        pytest.param("index", "counted", True, id="index-on-a-counted-node"),
        pytest.param("index", "numbered", False, id="index-on-a-numbered-node"),
        pytest.param("index", "unknown", False, id="index-where-it-is-not-known"),
        pytest.param("local", "counted", False, id="local-on-a-counted-node"),
    ],
)
def test_host_indexes_in_a_container_numbering_warn(mode: str, kind: str, is_warned: bool) -> None:
    body = duo(annotations={well_known.CUDA_MODE: mode})
    warnings = run(body, answer(kinds={"gpu-a": kind})).warnings
    assert [
        text.startswith(f"{well_known.CUDA_MODE}: index gives host numbers") for text in warnings
    ] == [True] * is_warned
