"""The webhook among other admission plugins, real controllers, failures and new certificates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scheduler.model import well_known
from scheduler.model.admission import AdmissionDecision, NodeAssignment
from tests.controlplane.webhook_bench import Bench, nothing, running
from tests.unit.webhook.pods import (
    MIG_1G,
    MIG_2G,
    container,
    environment,
    gpus,
    pod,
    rewrite,
)
from tools.controlplane import ApiError, Client, ControlPlane, wait_until

MAP = "0=node1:0,1\n1=node2:2,3"
MakeNode = Callable[..., str]
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


#: As the scheduler gives them; the policy refuses any other shape.
RESERVATION = "r-" + "a" * 16


def devices(body: Json, field: str = "containers") -> list[Json]:
    """What each container may use, by limit and by request alike."""
    found = []
    for item in body["spec"][field]:
        limits, requests = (item["resources"].get(side, {}) for side in ("limits", "requests"))
        assert limits == requests
        found.append(limits)
    return found


def degrades_once(question: Json) -> AdmissionDecision:
    """As the scheduler does: the second call of one admission is known by its reservation."""
    given = question["pod"]["metadata"].get("annotations", {})
    is_known = given.get(well_known.RESERVATION) == RESERVATION
    return AdmissionDecision(
        rewrites=(rewrite(),), reservation=RESERVATION, known_reservation=is_known
    )


@pytest.mark.contract("S2-B10", "S0-B7")
def test_restored_limit_range_default_is_removed_again(
    bench: Bench, client: Client, namespace: str
) -> None:
    """The API server runs its own plugins again after our patch, and then us again."""
    limits = {"type": "Container", "default": {MIG_2G: "1"}, "defaultRequest": {MIG_2G: "1"}}
    client.create(
        f"/api/v1/namespaces/{namespace}/limitranges",
        {"metadata": {"name": "slices"}, "spec": {"limits": [limits]}},
    )
    bench.say = degrades_once
    # A plugin of the API server sees the LimitRange only after a moment.
    wait_until(
        lambda: devices(client.create(pods(namespace) + "?dryRun=All", pod())) == [{MIG_1G: "1"}],
        what="LimitRanger to know its default",
    )
    bench.questions.clear()

    made = client.create(pods(namespace), pod())

    first, second = (devices(question["pod"]) for question in bench.questions)
    assert (first, second) == ([{MIG_2G: "1"}], [{MIG_1G: "1", MIG_2G: "1"}])
    assert devices(made) == [{MIG_1G: "1"}]
    given = made["metadata"]["annotations"]
    assert (given[well_known.FALLBACK], given[well_known.RESERVATION]) == (
        "2g.20gb->1g.10gb",
        RESERVATION,
    )
    assert json.loads(given[well_known.ORIGINAL]) == {
        "app": {"limits": {MIG_2G: "1"}, "requests": {MIG_2G: "1"}}
    }


def deploy(client: Client, namespace: str, template: dict[str, Any]) -> None:
    """Let the real controllers make one pod of this shape."""
    labels = {"app": "web"}
    meta = {"labels": labels, "annotations": template["metadata"]["annotations"]}
    body = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": meta, "spec": template["spec"]},
        },
    }
    client.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", body)


@pytest.mark.smoke
@pytest.mark.contract("S2-B9", "S0-19", "S0-B6")
def test_a_deployments_pods_read_what_the_binding_writes(
    bench: Bench, client: Client, namespace: str, kwok_node: MakeNode
) -> None:
    """Made by the real controllers, with a generated name and without a namespace of their own."""
    bench.say = lambda _: AdmissionDecision(
        node_kinds={name: NodeAssignment(name, "numbered") for name in ("node1", "node2")}
    )
    node = kwok_node("life")
    template = pod(
        container("serve", gpus(1)),
        container("train", gpus(1)),
        container("log"),
        map_text=MAP,
        tolerations=[{"operator": "Exists"}],
    )
    deploy(client, namespace, template)
    seen = client.wait_for(
        pods(namespace), lambda found: len(found["items"]) == 1, what="the Deployment's pod"
    )
    made = seen["items"][0]
    name = made["metadata"]["name"]

    key = "@cuda-visible-devices"
    assert environment(made) == {"serve": f"{key}.0", "train": f"{key}.1", "log": None}
    given = {
        f"{well_known.CUDA_VISIBLE_DEVICES}.0": "0",
        f"{well_known.CUDA_VISIBLE_DEVICES}.1": "1",
    }
    binding = {"metadata": {"name": name, "annotations": given}, "target": {"name": node}}
    client.create(f"{pods(namespace)}/{name}/binding", binding)
    path = f"{pods(namespace)}/{name}"
    bound = client.wait_for(
        path, lambda found: found["status"].get("phase") == "Running", what="the pod to run"
    )
    assert given.items() <= bound["metadata"]["annotations"].items()
    generated = made["metadata"]["generateName"]
    assert bench.wait_for_log(f"Reviewing pod: {namespace}/{generated}")


def test_forged_annotation_is_stripped_or_refused(
    bench: Bench, client: Client, namespace: str
) -> None:
    """The webhook comes before the policy, and looks only after our scheduler's pods."""
    forged = {well_known.DEVICES: "gpu:0", well_known.RESERVATION: "r-9", "team": "a"}

    made = client.create(pods(namespace), pod(annotations=dict(forged)))
    with pytest.raises(ApiError, match="only gpu-scheduler may set or change") as caught:
        client.create(
            pods(namespace), pod(name="x", annotations=dict(forged), schedulerName="other")
        )

    assert made["metadata"]["annotations"] == {"team": "a"}
    assert caught.value.status == 403


def test_debug_container_is_ignored(
    bench: Bench, client: Client, namespace: str, kwok_node: MakeNode
) -> None:
    """``kubectl debug`` on a running mapped pod works and is not reviewed."""
    client.create(pods(namespace), pod(map_text="0=life-debug:0"))
    path = f"{pods(namespace)}/w-0"
    target = {"kind": "Node", "name": kwok_node("life-debug")}
    client.create(f"{path}/binding", {"metadata": {"name": "w-0"}, "target": target})
    before = bench.reviews()
    debugger = {"name": "debug", "image": "none"}

    client.patch(
        f"{path}/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [debugger]}},
        content_type="application/strategic-merge-patch+json",
    )

    assert client.get(path)["spec"]["ephemeralContainers"][0]["name"] == "debug"
    assert bench.reviews() == before


@pytest.mark.contract("S2-B13", "S0-29", "S0-B10")
def test_certificate_renewal_misses_no_pod(bench: Bench, client: Client, namespace: str) -> None:
    """Old and new authority in the bundle, no restart, pods all the time."""
    old = bench.bundle
    bench.bundle = bench.renew()
    bench.register(old.ca_pem, bench.bundle.ca_pem)
    numbers = iter(range(10_000))

    def is_served_by_the_new_one() -> bool:
        body = pod(name=f"w{next(numbers)}-0", map_text=MAP)
        assert environment(client.create(pods(namespace), body)) == {"app": "0,1"}
        return "certificate loaded" in bench.log()

    wait_until(is_served_by_the_new_one, what="the new certificate to be served")
    bench.register(bench.bundle.ca_pem)
    for _ in range(5):
        is_served_by_the_new_one()
    assert bench.page("/healthz") == "ok\n"


@pytest.mark.contract("S2-B4", "S2-B18")
def test_while_the_webhook_is_down_pods_are_created_without_it(
    bench: Bench, client: Client, namespace: str
) -> None:
    """failurePolicy Ignore: no pod is blocked; afterwards mutation works as before."""
    bodies = [
        pod(name="plain-0", schedulerName="default-scheduler"),
        pod(map_text=MAP),
        pod(container(limits={MIG_2G: "1"}), name="mig-0"),
    ]
    with bench.away():
        made = [client.create(pods(namespace), body) for body in bodies]
        system = client.create(pods("kube-system") + "?dryRun=All", pod(map_text=MAP))

    assert [environment(body) for body in made] == [{"app": None}] * 3
    assert environment(system) == {"app": None}
    wait_until(bench.is_called, what="the webhook to be called again")
    after = client.create(pods(namespace), pod(name="w-1", map_text=MAP))
    assert environment(after) == {"app": "2,3"}
