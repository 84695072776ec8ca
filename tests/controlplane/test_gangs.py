"""Groups on the real API server: all of their members get nodes, or none of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from scheduler.model import well_known
from tests.controlplane.conftest import MakeNode
from tests.controlplane.refused_binding import refused_binding
from tests.controlplane.workloads import Json, Watcher, node_of, pod, why
from tools.controlplane import ControlPlane, wait_until
from tools.product import ROOT, Product

GPU = "nvidia.com/gpu"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LABEL = "scheduling.x-k8s.io/pod-group"
SEED = 18
#: Of so many GPUs the groups below want about twice as many.
NODES, GPUS_EACH = 4, 4
SIZES = (2, 3, 4, 5, 6, 7, 8)

#: Kinds named PodGroup: group and version, and the mark on pods.
KINDS = [
    pytest.param(("scheduling.x-k8s.io", "v1alpha1", {"labels": {LABEL: "late"}}), id="plugins"),
    pytest.param(
        (
            *("scheduling.volcano.sh", "v1beta1"),
            {"annotations": {"scheduling.k8s.io/group-name": "late"}},
        ),
        id="volcano",
    ),
]


def definition(group: str, version: str) -> Json:
    """The kind, with the fields that are read."""
    spec = {"type": "object", "properties": {"minMember": {"type": "integer", "format": "int32"}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    served = {"served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    approved = "https://github.com/kubernetes/enhancements/pull/1463"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
            "annotations": {"api-approved.kubernetes.io": approved},
        },
        "spec": {
            "group": group,
            "names": {"kind": "PodGroup", "plural": "podgroups", "singular": "podgroup"},
            "scope": "Namespaced",
            "versions": [{"name": version, **served}],
        },
    }


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """No group keeps smaller ones from the free GPUs (test_random_groups.py has reservations)."""
    config = {"gang": {"reserveSeconds": 0, "sources": ["volcano"]}}
    cp.kubectl("apply", "-f", str(ROOT / "cluster" / "rbac-groups.yaml"))
    with Product(cp, tmp_path_factory.mktemp("product"), config=config) as running:
        yield running


def member(group: str, rank: int, minimum: int, **more: Json) -> Json:
    """One member with one GPU."""
    return pod(
        f"{group}-{rank}",
        labels={well_known.GROUP: group},
        annotations={well_known.GROUP_MIN: str(minimum)},
        limits={GPU: "1"},
        **more,
    )


def bound_by_group(items: list[Json]) -> dict[str, tuple[int, int]]:
    """By group: how many members have a node, and how many exist."""
    names = [(item["metadata"]["labels"][well_known.GROUP], node_of(item)) for item in items]
    every = Counter(group for group, _ in names)
    bound = Counter(group for group, node in names if node)
    return {group: (bound[group], count) for group, count in every.items()}


def is_settled(items: list[Json]) -> bool:
    """No group is bound in part, and none that waits would fit into the free GPUs."""
    groups = bound_by_group(items)
    free = NODES * GPUS_EACH - sum(bound for bound, _ in groups.values())
    if any(bound not in (0, size) for bound, size in groups.values()):
        return False
    return all(bound or size > free for bound, size in groups.values())


def is_explained(items: list[Json]) -> bool:
    """Every member that waits says what its group lacks."""
    waiting = [why(item) for item in items if not node_of(item)]
    return all("members that have to be placed together fit" in text for text in waiting)


@pytest.mark.smoke
@pytest.mark.contract("S4-21")
def test_groups_that_do_not_all_fit_are_bound_as_wholes(here: Watcher, kwok_node: MakeNode) -> None:
    """Pods of all groups arrive mixed; each time a group ends, another one may start."""
    for number in range(NODES):
        kwok_node(f"gang-{number}", gpus=GPUS_EACH)
    bodies = [member(f"g{size}", rank, size) for size in SIZES for rank in range(size)]
    random.Random(SEED).shuffle(bodies)
    for body in bodies:
        here.create(body)
    items = here.wait("whole groups", lambda seen: len(seen) == sum(SIZES) and is_settled(seen))
    here.wait("every waiting member to be explained", is_explained)

    started: set[str] = set()
    while items:
        running = {group for group, (bound, _) in bound_by_group(items).items() if bound}
        assert running, "a group that fits an empty cluster waits"
        started |= running
        ended = min(running)
        for item in items:
            if item["metadata"]["labels"][well_known.GROUP] == ended:
                here.client.delete(here.path("Pod", item["metadata"]["name"]))
        items = here.wait(
            f"{ended} to end and whole groups",
            lambda seen, ended=ended: ended not in bound_by_group(seen) and is_settled(seen),
        )
    assert started == {f"g{size}" for size in SIZES}


def test_a_missing_member_is_named_until_it_comes(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("gang", gpus=4)
    for rank in (0, 2):
        here.create(member("train", rank, 3))
    for rank in (0, 2):
        told = here.wait_explained(
            f"train-{rank}",
            "waiting for members 2/3 of group train; no pod has the index 1.",
        )
        [condition] = told["status"]["conditions"]
        assert condition["reason"] == "WaitingForGroup"
        assert not told["status"].get("nominatedNodeName")

    here.create(member("train", 1, 3))
    here.wait_bound(3)


def test_a_deleted_member_is_replaced_alone(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("gang", gpus=3)
    for rank in range(3):
        here.create(member("train", rank, 3))
    here.wait_bound(3)
    here.client.delete(here.path("Pod", "train-1"))
    here.wait("two pods", lambda items: len(items) == 2)

    here.create(member("train", 1, 3))

    here.wait_bound(3)


def test_a_refused_member_follows_when_it_may(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("gang", gpus=3)
    with refused_binding(here, "half-1", "gang"):
        for rank in range(3):
            here.create(member("half", rank, 3))
        here.wait_explained("half-1", "binding failed: ")
        here.wait_bound(2)

    here.wait_bound(3)


@pytest.fixture(params=KINDS)
def kind(cp: ControlPlane, request: pytest.FixtureRequest) -> Iterator[tuple[str, str, Json]]:
    """A kind of PodGroups that is installed for as long as the test lasts."""
    group, version, mark = request.param
    name = f"podgroups.{group}"
    cp.client.create(CRDS, definition(group, version))
    try:
        cp.client.wait_for(
            f"{CRDS}/{name}",
            lambda seen: any(
                one["type"] == "Established" and one["status"] == "True"
                for one in seen.get("status", {}).get("conditions") or ()
            ),
            what="the kind to be served",
        )
        yield group, version, mark
    finally:
        cp.client.delete(f"{CRDS}/{name}")


def test_pod_group_of_another_scheduler_has_the_minimum(
    here: Watcher, kwok_node: MakeNode, kind: tuple[str, str, Json]
) -> None:
    group, version, mark = kind
    kwok_node("gang", gpus=3)
    # Without its group a pod waits as soon as the kind is known to the scheduler.
    wait_until(lambda: _waits(here, group, mark), what="the scheduler to read PodGroups")
    before = {item["metadata"]["name"] for item in here.pods() if not node_of(item)}

    groups = f"/apis/{group}/{version}/namespaces/{here.namespace}/podgroups"
    late = {"apiVersion": f"{group}/{version}", "kind": "PodGroup", "metadata": {"name": "late"}}
    here.client.create(groups, {**late, "spec": {"minMember": 1}})

    here.wait("the waiting pods to be bound", lambda items: all(map(node_of, items)) and before)


def _waits(here: Watcher, group: str, mark: Json) -> bool:
    """Whether a pod whose group does not exist waits; where the kind is unknown it is bound."""
    name = f"late-{len(here.pods())}"
    here.create(pod(name, **mark))
    seen = here.client.wait_for(
        here.path("Pod", name),
        lambda item: bool(node_of(item) or why(item)),
        what=f"{name} to be decided",
    )
    return f"group not found: PodGroup.{group}" in why(seen)


def test_a_group_in_the_spec_is_no_gang_where_it_is_not_served(
    here: Watcher, kwok_node: MakeNode
) -> None:
    """The API server drops the field without a word."""
    kwok_node("gang", gpus=1)
    body = pod("single", limits={GPU: "1"})
    body["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    here.create(body)

    here.wait_bound(1)
