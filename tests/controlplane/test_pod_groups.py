"""The API server's own PodGroups, which pods name in their spec (gate GenericWorkload)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.built_programs import fail_if_missing
from tests.controlplane.conftest import HERE, MakeNode
from tests.controlplane.workloads import Json, Watcher, node_of, pod
from tools.controlplane import ControlPlane

pytestmark = pytest.mark.kubernetes("1.37", "scheduling.k8s.io/v1beta1 has PodGroups from then on")

GPU = "nvidia.com/gpu"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
FLAGS = (
    "--feature-gates=GenericWorkload=true",
    "--runtime-config=scheduling.k8s.io/v1beta1=true",
)


@pytest.fixture(scope="module")
def cp(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """An API server that serves them."""
    fail_if_missing(request, HERE)
    directory = tmp_path_factory.mktemp("pod-groups")
    with ControlPlane.start(directory, api_server_flags=FLAGS) as plane:
        yield plane


def create_group(here: Watcher, name: str, policy: Json) -> None:
    """A PodGroup as a controller creates it."""
    body = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy},
    }
    here.client.create(GROUPS.format(here.namespace), body)


def create_members(here: Watcher, group: str, count: int) -> None:
    for number in range(count):
        body = pod(f"{group}-{number}", limits={GPU: "1"})
        body["spec"]["schedulingGroup"] = {"podGroupName": group}
        here.create(body)


def wait_condition(here: Watcher, name: str, status: str, reason: str) -> Json:
    """The condition of a group as soon as it says this."""

    def found(item: Json) -> list[Json]:
        every = item.get("status", {}).get("conditions", [])
        return [one for one in every if (one["status"], one["reason"]) == (status, reason)]

    path = f"{GROUPS.format(here.namespace)}/{name}"
    seen = here.client.wait_for(path, lambda item: bool(found(item)), what=f"{name}: {reason}")
    [condition] = found(seen)
    assert condition["type"] == "PodGroupInitiallyScheduled"
    return condition


def test_a_group_of_the_api_server_starts_as_one(here: Watcher, kwok_node: MakeNode) -> None:
    kwok_node("first", gpus=1)
    create_members(here, "train", 2)
    here.wait_explained("train-0", "group not found: PodGroup.scheduling.k8s.io")

    create_group(here, "train", {"gang": {"minCount": 2}})
    told = wait_condition(here, "train", "False", "Unschedulable")
    assert "1 of the 2 members that have to be placed together fit" in told["message"]
    assert not any(map(node_of, here.pods()))

    kwok_node("second", gpus=1)
    here.wait_bound(2)
    wait_condition(here, "train", "True", "Scheduled")


def test_a_group_with_the_basic_policy_starts_one_by_one(
    here: Watcher, kwok_node: MakeNode
) -> None:
    kwok_node("only", gpus=1)
    create_group(here, "loose", {"basic": {}})
    create_members(here, "loose", 2)

    here.wait_bound(1)
    wait_condition(here, "loose", "True", "Scheduled")
