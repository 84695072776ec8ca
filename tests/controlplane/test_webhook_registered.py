"""The webhook called by a real API server: what it is sent, and that its patches are accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision
from tests.controlplane.webhook_bench import Bench, nothing, running
from tests.unit.webhook.pods import MIG_1G, MIG_2G, container, environment, gpus, pod, rewrite
from tools.controlplane import ApiError, Client, ControlPlane, wait_until

MAP = "0=node1:0,1\n1=node2:2"
#: As the scheduler gives them; the policy refuses any other shape.
RESERVATION = "r-" + "a" * 16
Json = dict[str, Any]


@pytest.fixture(scope="module")
def _bench(cp: ControlPlane) -> Iterator[Bench]:
    """One webhook for this file."""
    with running(cp) as bench:
        yield bench


@pytest.fixture
def bench(_bench: Bench) -> Bench:
    """The webhook with a scheduler that changes nothing, and a clean sheet."""
    _bench.say = nothing
    _bench.questions.clear()
    return _bench


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def resources(body: Json, position: int = 0) -> Json:
    """Devices in a container's limits and requests."""
    found = body["spec"]["containers"][position]["resources"]
    return {side: dict(found.get(side, {})) for side in ("limits", "requests")}


@pytest.mark.smoke
@pytest.mark.contract("S2-1", "S2-14", "S2-16")
def test_a_mapped_pod_is_created_with_its_devices(
    bench: Bench, client: Client, namespace: str
) -> None:
    """And the log has the seed's line."""
    made = client.create(pods(namespace), pod(map_text=MAP, init=[container("prep")]))

    assert environment(made) == {"prep": "0,1", "app": "0,1"}
    line = "Injecting CUDA_VISIBLE_DEVICES=0,1 for pod w-0 (index 0)"
    created = "Created patch for pod w-0"
    assert bench.wait_for_log(created)[-2:] == [line, created]


@pytest.mark.contract("S0-20", "S0-21", "S0-22", "S0-23")
def test_a_degraded_pod_is_created_with_the_smaller_slice(
    bench: Bench, client: Client, namespace: str
) -> None:
    """The annotations, equal limits and requests, the four lines, the reservation."""
    bench.say = lambda _: AdmissionDecision(rewrites=(rewrite(),), reservation=RESERVATION)

    made = client.create(
        pods(namespace), pod(container(limits={MIG_2G: "1"}), name="test-medium-gpu")
    )

    given = made["metadata"]["annotations"]
    key = f"{namespace}/test-medium-gpu"
    assert resources(made) == {"limits": {MIG_1G: "1"}, "requests": {MIG_1G: "1"}}
    assert given[well_known.FALLBACK] == "2g.20gb->1g.10gb"
    assert given[well_known.RESERVATION] == RESERVATION
    assert bench.wait_for_log(f"Applied fallback patch to pod {key}")[-4:] == [
        f"Reviewing pod: {key}",
        f"Pod {key} requests 2g.20gb MIG",
        f"2g.20gb not available, falling back to 1g.10gb for pod {key}",
        f"Applied fallback patch to pod {key}",
    ]


OWN = well_known.CUDA_ENV
ODD = [
    pytest.param(pod(container(env=None), map_text=MAP), "0,1", id="null-env"),
    pytest.param(pod(container(env=[{"name": OWN}]), map_text=MAP), "0,1", id="value-left-out"),
    pytest.param(
        pod(
            container(
                env=[
                    {"name": OWN, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "A", "value": f"$({OWN})"},
                    {"name": OWN, "value": "9"},
                ]
            ),
            map_text=MAP,
        ),
        "0,1",
        id="value-from-and-a-duplicate",
    ),
    pytest.param(pod(name="w-7", map_text=MAP), "@cuda-visible-devices", id="no-line"),
    pytest.param(pod(name="", map_text=MAP), "@cuda-visible-devices", id="generated-name"),
]


@pytest.mark.contract("S2-B10")
@pytest.mark.parametrize(("body", "value"), ODD)
def test_patches_are_accepted_whatever_the_variable_was(
    bench: Bench, client: Client, namespace: str, body: Json, value: str
) -> None:
    """The API server applies the patch and decodes the result by its own types."""
    made = client.create(pods(namespace), body)
    entries = made["spec"]["containers"][0]["env"]

    assert environment(made) == {"app": value}
    assert {json.dumps(e, sort_keys=True) for e in entries if e["name"] == OWN} == {
        json.dumps(next(e for e in entries if e["name"] == OWN), sort_keys=True)
    }


@pytest.mark.contract("S2-B10")
def test_null_lists_and_maps_are_accepted(bench: Bench, client: Client, namespace: str) -> None:
    """As templates with an empty value write them."""
    body = pod(container(limits={MIG_2G: "1"}), initContainers=None, volumes=None)
    body["metadata"] |= {"annotations": None, "labels": None}
    body["spec"]["containers"][0] |= {"env": None, "ports": None}
    bench.say = lambda _: AdmissionDecision(rewrites=(rewrite(),))

    made = client.create(pods(namespace), body)

    assert resources(made)["limits"] == {MIG_1G: "1"}


@pytest.mark.contract("S2-B11")
def test_bad_map_is_denied_with_its_line_without_asking_the_scheduler(
    bench: Bench, client: Client, namespace: str
) -> None:
    """The user reads it where the pod was created."""
    with pytest.raises(ApiError) as caught:
        client.create(pods(namespace), pod(map_text="0=node1:0\n1=node2"))

    assert caught.value.status == 400
    assert 'gpu-scheduling-map line 2: no devices after node "node2"' in str(caught.value)
    assert bench.questions == []


def test_the_schedulers_refusal_reaches_the_user(
    bench: Bench, client: Client, namespace: str
) -> None:
    """With its sentence and code 403."""
    bench.say = lambda _: AdmissionDecision(denied="no tier of the ladder is free")

    with pytest.raises(ApiError, match="no tier of the ladder is free") as caught:
        client.create(pods(namespace), pod(container(limits={MIG_2G: "1"})))

    assert caught.value.status == 403


@pytest.mark.contract("S0-B3")
def test_a_dry_run_gets_the_same_pod_and_says_so_to_the_scheduler(
    bench: Bench, client: Client, namespace: str
) -> None:
    """It is the scheduler's to reserve nothing then."""
    bench.say = lambda q: AdmissionDecision(
        rewrites=(rewrite(),), reservation=None if q["dryRun"] else RESERVATION
    )
    body = pod(container(limits={MIG_2G: "1"}))

    tried = client.create(pods(namespace) + "?dryRun=All", body)
    stored = client.create(pods(namespace), body)

    assert resources(tried) == resources(stored)
    assert well_known.RESERVATION not in tried["metadata"]["annotations"]
    assert stored["metadata"]["annotations"][well_known.RESERVATION] == RESERVATION
    assert [q["dryRun"] for q in bench.questions] == [True, False]
    assert {q["namespace"] for q in bench.questions} == {namespace}


def sent(bench: Bench, client: Client, namespace: str, body: Json) -> int:
    """How many reviews one creation causes."""
    before = bench.reviews()
    client.create(pods(namespace), body)
    return bench.reviews() - before


FOREIGN = "default-scheduler"
#: By a label's value a pod that is reviewed otherwise with the label, and how often it is then.
PROBES: dict[str, tuple[Json, int]] = {
    "disabled": (pod(name="", generateName="p-"), 0),
    "enabled": (
        pod(container(limits={MIG_2G: "1"}), name="", generateName="p-", schedulerName=FOREIGN),
        1,
    ),
}
IN_INIT = pod(init=[container("prep", {MIG_2G: "1"})], schedulerName=FOREIGN)


@pytest.mark.contract("S0-19", "S2-B4")
@pytest.mark.parametrize(
    ("label", "body", "reviews"),
    [
        pytest.param(None, pod(), 1, id="ours"),
        pytest.param(None, pod(container(limits=gpus(1)), schedulerName=FOREIGN), 0, id="gpu"),
        pytest.param(
            None, pod(container(limits={MIG_2G: "1"}), schedulerName=FOREIGN), 0, id="not-asked-for"
        ),
        pytest.param(
            ("gpu-scheduler.io/mig-fallback", "enabled"),
            pod(container(limits={MIG_2G: "1"}), schedulerName=FOREIGN),
            1,
            id="asked-for",
        ),
        pytest.param(("gpu-scheduler.io/mig-fallback", "enabled"), IN_INIT, 1, id="init-container"),
        pytest.param(
            ("gpu-scheduler.io/mig-fallback", "enabled"),
            pod(container(limits=gpus(1)), schedulerName=FOREIGN),
            0,
            id="asked-for-but-no-mig",
        ),
        pytest.param(
            ("gpu-scheduler.io/mig-fallback", "enabled"),
            pod(container(limits={MIG_2G: "1"})),
            1,
            id="ours-goes-to-one-entry-only",
        ),
        pytest.param(("gpu-webhook", "disabled"), pod(), 0, id="opted-out"),
    ],
)
def test_api_server_sends_only_matching_pods(
    bench: Bench,
    client: Client,
    namespace: str,
    label: tuple[str, str] | None,
    body: Json,
    reviews: int,
) -> None:
    """By conditions on the pod and labels of the namespace, both in the API server."""
    if label:
        client.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": dict([label])}})
        wait_until(
            lambda: sent(bench, client, namespace, PROBES[label[1]][0]) == PROBES[label[1]][1],
            what="the API server to see the label",
        )
    assert sent(bench, client, namespace, body) == reviews
