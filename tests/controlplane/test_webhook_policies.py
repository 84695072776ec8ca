"""The policy that guards our annotations, in a real API server and without any webhook."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler.model import well_known
from tests.controlplane.tenants import said
from tools.controlplane import ApiError, Client, ControlPlane, ControlPlaneError, wait_until

MANIFEST = Path(__file__).parents[2] / "cluster" / "admission-policies.yaml"
MakeNode = Callable[..., str]
Json = dict[str, Any]

BINDING_KEYS = [*well_known.BINDING_KEYS, well_known.CUDA_VISIBLE_DEVICES + ".1"]
RESERVATION = "r-" + "a" * 16
MOVE = "restore-1-0a1b2c3d"
OTHER = "another-scheduler"
THREATS = Path(__file__).parent / "threats"
GIVEN = {
    well_known.DEVICES: "gpu:0,1",
    well_known.CUDA_VISIBLE_DEVICES: "0,1",
    well_known.POD_INDEX: "0",
    well_known.DECISION: "d-1",
    well_known.EPOCH: "3",
}


@pytest.fixture(scope="module")
def _policy(cp: ControlPlane) -> Iterator[None]:
    """The shipped manifest, in force."""
    cp.kubectl("apply", "-f", str(MANIFEST))
    probe = pod_body("probe", {well_known.DEVICES: "gpu:0"})

    def is_in_force() -> bool:
        try:
            cp.client.create("/api/v1/namespaces/default/pods?dryRun=All", probe)
        except ApiError as error:
            return error.status == 403
        return False

    wait_until(is_in_force, what="the policy to be in force")
    yield
    cp.kubectl("delete", "-f", str(MANIFEST))


pytestmark = pytest.mark.usefixtures("_policy")


def pod_body(name: str, annotations: Json | None = None, **spec: Any) -> Json:
    """A pod of our scheduler."""
    return {
        "metadata": {"name": name, **({"annotations": annotations} if annotations else {})},
        "spec": {
            "schedulerName": "gpu-scheduler",
            "containers": [{"name": "app", "image": "none"}],
            **spec,
        },
    }


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def bind(client: Client, path: str, node: str, annotations: Json | None = None) -> None:
    """As our binder does it: one write for the node and what was decided."""
    name = path.rpartition("/")[2]
    metadata = {"name": name, "annotations": GIVEN if annotations is None else annotations}
    target = {"kind": "Node", "name": node}
    client.create(
        f"{path}/binding",
        {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target},
    )


@pytest.fixture
def bound(client: Client, namespace: str, kwok_node: MakeNode) -> str:
    """The path of a pod that was bound with all our annotations and runs."""
    path = f"{pods(namespace)}/w-0"
    body = pod_body("w-0", {"team": "a", well_known.RESERVATION: RESERVATION})
    client.create(pods(namespace), body)
    bind(client, path, kwok_node("guarded"))
    client.wait_for(path, lambda p: p["status"].get("phase") == "Running", what="the pod to run")
    return path


def test_a_binding_writes_every_protected_annotation(client: Client, bound: str) -> None:
    """It goes another way than edits do, in the same write as the node."""
    pod = client.get(bound)

    assert GIVEN.items() <= pod["metadata"]["annotations"].items()
    assert pod["spec"]["nodeName"] == "guarded"


@pytest.mark.smoke
@pytest.mark.parametrize("key", BINDING_KEYS)
def test_create_with_a_binding_annotation_is_refused(
    client: Client, namespace: str, key: str
) -> None:
    """Not even an administrator; the answer names the annotation."""
    with pytest.raises(ApiError) as caught:
        client.create(pods(namespace), pod_body("w-0", {key: ""}))

    assert caught.value.status == 403
    assert f"only gpu-scheduler may set or change the annotation {key}" in str(caught.value)


@pytest.mark.parametrize(
    "annotations", [None, {"team": "a"}, {well_known.RESERVATION: RESERVATION}]
)
def test_other_pods_are_created_unchanged(
    client: Client, namespace: str, annotations: Json | None
) -> None:
    """What the webhook writes is allowed at creation: it has taken the user's away before."""
    made = client.create(pods(namespace), pod_body("w-0", annotations))

    assert made["metadata"].get("annotations", {}) == (annotations or {})


EDITS: list[tuple[Json, str]] = [
    ({well_known.DEVICES: "gpu:7"}, "set or change"),
    ({well_known.DEVICES: None}, "remove"),
    ({well_known.CUDA_VISIBLE_DEVICES + ".1": "7"}, "set or change"),
    ({well_known.RESERVATION: "r-" + "b" * 16}, "set or change"),
    ({well_known.RESERVATION: None}, "remove"),
    ({well_known.MIGRATION: "m-1"}, "set or change"),
]


@pytest.mark.parametrize("way", ["", "/status"])
def test_a_live_pods_protected_annotations_cannot_be_edited(
    client: Client, bound: str, way: str
) -> None:
    """Changed, removed or added: each is refused by the name of the annotation."""
    before = client.get(bound)["metadata"]["annotations"]
    for edit, verb in EDITS:
        with pytest.raises(ApiError) as caught:
            client.patch(bound + way, {"metadata": {"annotations": edit}})
        (key,) = edit
        assert caught.value.status == 403
        assert f"only gpu-scheduler may {verb} the annotation {key}" in str(caught.value)

    assert client.get(bound)["metadata"]["annotations"] == before


@pytest.mark.parametrize("way", ["/ephemeralcontainers", "/resize"])
def test_subresources_cannot_set_a_protected_annotation(
    client: Client, bound: str, way: str
) -> None:
    """This API server ignores annotations there; one that did not would meet the policy."""
    before = client.get(bound)["metadata"]["annotations"]
    for edit, _ in EDITS:
        with suppress(ApiError):
            client.patch(bound + way, {"metadata": {"annotations": edit}})

    assert client.get(bound)["metadata"]["annotations"] == before


def test_all_annotations_cannot_be_dropped_at_once(client: Client, bound: str) -> None:
    """A replacement without any is a removal too."""
    pod = client.get(bound)
    pod["metadata"].pop("annotations")

    with pytest.raises(ApiError, match="only gpu-scheduler may remove the annotation"):
        client.replace(bound, pod)


def test_ordinary_writes_to_a_live_pod_pass(client: Client, bound: str) -> None:
    """Labels, own annotations, the kubelet's status, a debug container, a resize."""
    strategic = "application/strategic-merge-patch+json"
    condition = {"type": "example.com/seen", "status": "True"}
    debugger = {"name": "debug", "image": "none", "targetContainerName": "app"}
    size = {"name": "app", "resources": {"requests": {"cpu": "1"}}}

    client.patch(bound, {"metadata": {"labels": {"a": "b"}, "annotations": {"team": None}}})
    client.patch(f"{bound}/status", {"status": {"conditions": [condition]}}, content_type=strategic)
    client.patch(
        f"{bound}/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [debugger]}},
        content_type=strategic,
    )
    with pytest.raises(ApiError) as resize:
        client.patch(f"{bound}/resize", {"spec": {"containers": [size]}}, content_type=strategic)

    pod = client.get(bound)
    assert "only gpu-scheduler" not in str(resize.value)
    assert pod["metadata"]["labels"] == {"a": "b"}
    assert pod["metadata"]["annotations"] == {well_known.RESERVATION: RESERVATION, **GIVEN}
    assert any(condition.items() <= item.items() for item in pod["status"]["conditions"])
    assert pod["spec"]["ephemeralContainers"][0]["name"] == "debug"


def test_a_live_pod_can_be_applied_as_it_was_read(
    cp: ControlPlane, client: Client, namespace: str, bound: str
) -> None:
    """``kubectl get -o yaml | kubectl apply -f -`` changes nothing and is not refused."""
    text = cp.kubectl("-n", namespace, "get", "pod", "w-0", "-o", "yaml")
    edited = yaml.safe_load(text)
    edited["metadata"]["annotations"][well_known.DEVICES] = "gpu:7"
    edited["metadata"].pop("resourceVersion")

    cp.kubectl("-n", namespace, "apply", "-f", "-", input=text)
    with pytest.raises(ControlPlaneError, match="only gpu-scheduler may set or change"):
        cp.kubectl("-n", namespace, "apply", "-f", "-", input=json.dumps(edited))

    assert GIVEN.items() <= client.get(bound)["metadata"]["annotations"].items()


# --- what only the webhook writes ----------------------------------------------------------------

RESERVED = {well_known.RESERVATION: RESERVATION}
MOVED = {well_known.MIGRATION: MOVE}
ASKS = {well_known.FALLBACK_NAMESPACE: "enabled"}
OPTED_OUT = {"gpu-webhook": "disabled"}


@pytest.fixture
def labelled(cp: ControlPlane, namespace: str) -> Callable[[Json], str]:
    """A namespace with these labels, as the API server's policies see it."""

    def label(labels: Json) -> str:
        cp.client.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
        return namespace

    return label


@pytest.mark.parametrize(
    ("annotations", "scheduler", "labels"),
    [
        pytest.param(RESERVED, OTHER, {}, id="of-another-scheduler"),
        pytest.param(RESERVED, well_known.SCHEDULER_NAME, OPTED_OUT, id="past-the-webhook"),
        pytest.param(RESERVED, OTHER, {**ASKS, **OPTED_OUT}, id="asks-and-opted-out"),
        pytest.param(
            {well_known.RESERVATION: "r-evil"}, well_known.SCHEDULER_NAME, {}, id="no-id-of-ours"
        ),
        pytest.param(
            {well_known.RESERVATION: "x" + RESERVATION}, well_known.SCHEDULER_NAME, {}, id="longer"
        ),
        pytest.param({well_known.RESERVATION: ""}, well_known.SCHEDULER_NAME, {}, id="empty"),
        pytest.param(MOVED, OTHER, {}, id="move-of-another-scheduler"),
        pytest.param(MOVED, OTHER, ASKS, id="move-of-another-that-asks"),
        pytest.param(MOVED, well_known.SCHEDULER_NAME, OPTED_OUT, id="move-past-the-webhook"),
        pytest.param(
            {well_known.MIGRATION: f"a-{'9' * 5000}-b"},
            well_known.SCHEDULER_NAME,
            {},
            id="move-of-5000-digits",
        ),
    ],
)
def test_webhook_only_values_are_refused_from_other_writers(
    client: Client,
    labelled: Callable[[Json], str],
    annotations: Json,
    scheduler: str,
    labels: Json,
) -> None:
    path = pods(labelled(labels)) + "?dryRun=All"
    (key,) = annotations

    wait_until(
        lambda: (
            f"only the webhook of gpu-scheduler may set the annotation {key}"
            in said(
                lambda: client.create(
                    path, pod_body("forged", annotations, schedulerName=scheduler)
                )
            )
        ),
        what="the refusal (policies learn of labels by a watch of their own)",
    )


@pytest.mark.parametrize(
    ("annotations", "scheduler", "labels"),
    [
        pytest.param(RESERVED, well_known.SCHEDULER_NAME, {}, id="ours"),
        pytest.param(RESERVED, OTHER, ASKS, id="of-another-in-a-namespace-that-asks"),
        pytest.param(MOVED, well_known.SCHEDULER_NAME, {}, id="move"),
        pytest.param({**RESERVED, **MOVED}, well_known.SCHEDULER_NAME, {}, id="both"),
        pytest.param({"team": "a"}, OTHER, OPTED_OUT, id="none-of-ours"),
    ],
)
def test_what_the_webhook_writes_passes(
    client: Client,
    labelled: Callable[[Json], str],
    annotations: Json,
    scheduler: str,
    labels: Json,
) -> None:
    path = pods(labelled(labels)) + "?dryRun=All"

    wait_until(
        lambda: (
            not said(
                lambda: client.create(path, pod_body("given", annotations, schedulerName=scheduler))
            )
        ),
        what="the pod to be taken",
    )


def test_forged_reservation_pod_is_refused(client: Client, namespace: str) -> None:
    forged = yaml.safe_load((THREATS / "08-forged-reservation.yaml").read_text())

    assert said(lambda: client.create(pods(namespace), forged)).startswith("403 ")


# --- very many annotations -----------------------------------------------------------------------


def test_a_pod_of_ours_has_at_most_256_annotations(client: Client, namespace: str) -> None:
    """Beyond that the keys of single containers would not be looked for."""
    many = {f"a{number}": "" for number in range(256)}
    client.create(pods(namespace), pod_body("full", many))

    assert "at most 256 annotations" in said(
        lambda: client.create(pods(namespace), pod_body("over", {**many, "one-more": ""}))
    )
    assert "at most 256 annotations" in said(
        lambda: client.patch(
            f"{pods(namespace)}/full", {"metadata": {"annotations": {"one-more": ""}}}
        )
    )


@pytest.mark.parametrize("count", [256, 20_000])
def test_a_forged_annotation_is_found_among_very_many(
    client: Client, namespace: str, count: int
) -> None:
    """And a pod without one is created and written, under every scheduler."""
    many = {f"a{number:x}": "" for number in range(count - 1)}
    client.create(pods(namespace), pod_body("many", many, schedulerName=OTHER))
    client.patch(f"{pods(namespace)}/many/status", {"status": {"message": "seen"}})

    forged = pod_body("forged", {**many, well_known.DEVICES: "gpu:0"}, schedulerName=OTHER)
    assert "only gpu-scheduler may" in said(lambda: client.create(pods(namespace), forged))
    edit = {"metadata": {"annotations": {well_known.DEVICES: "gpu:0"}}}
    assert "only gpu-scheduler may" in said(lambda: client.patch(f"{pods(namespace)}/many", edit))
