"""The product's life in a cluster, as one story on real parts: each test goes on where the one
before has ended.

The charts are installed with their default values; scheduler and webhook are pods of our image on
the real node, with the rights of the chart and with nothing else. Meanwhile pods that have nothing
to do with it are created all the time, and each of them must be admitted without a call to a
webhook.
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pytest

from tests.e2e.containers import Json
from tests.e2e.delivered import (
    CHECKER,
    NAMESPACE,
    SCHEDULER,
    SECRET,
    ByHelm,
    Check,
    Delivery,
    Scheduler,
)
from tests.e2e.newcomers import Newcomers
from tests.leftovers import (
    API_KINDS,
    everything,
    finalized_kinds,
    left_since,
    wait_until_gone,
)
from tools.charts.helm import HelmFailed
from tools.controlplane import ControlPlane, ControlPlaneError
from tools.controlplane.client import wait_until
from tools.realnode import RealNode

pytestmark = pytest.mark.usefixtures("step")
log = logging.getLogger(__name__)
#: What a process can do there, told by itself.
INSIDE: Final = """
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
def refused(path):
    try:
        open(path, "w")
    except OSError as error:
        return error.strerror
keys = ("Uid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")
print(json.dumps({key: status[key].split()[0] for key in keys} | {
    "root": refused("/forbidden"),
    "code": refused(json.__file__),
    "token": os.path.exists("/var/run/secrets/kubernetes.io/serviceaccount/token"),
}))
"""


@dataclass(frozen=True, slots=True)
class Story:
    """The participants of the delivery."""

    delivery: Delivery
    scheduler: Scheduler
    check: Check
    before: set[str]


@pytest.fixture(scope="module")
def story(
    cp: ControlPlane, newcomers: Newcomers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """Nothing is installed; nor is anything at the end, however the story ends."""
    newcomers.wait_for_one()
    delivery = ByHelm(cp, tmp_path_factory.mktemp("delivery"))
    yield Story(delivery=delivery, scheduler=Scheduler(cp), check=Check(cp), before=everything(cp))
    for release in (CHECKER, SCHEDULER):
        with contextlib.suppress(HelmFailed):
            delivery.withdraw(release)


def test_default_chart_becomes_two_ready_pods(
    cp: ControlPlane, node: RealNode, story: Story
) -> None:
    """Two containers each, on a node without any label of a control plane; one of them leads."""
    story.delivery.deploy(SCHEDULER, {})

    pods = story.scheduler.wait()

    assert {pod["spec"]["nodeName"] for pod in pods} == {node.name}
    for pod in pods:
        states = {one["name"]: one for one in pod["status"]["containerStatuses"]}
        assert states.keys() == {"scheduler", "webhook"}
        assert {one["restartCount"] for one in states.values()} == {0}
    assert story.scheduler.wait_for_leader() in story.scheduler.names()


@pytest.mark.contract("S2-10", "S2-29")
def test_pods_run_with_chart_rights_only(cp: ControlPlane, story: Story) -> None:
    """As the chart's account, which may bind, and may neither create pods nor read all Secrets."""
    (account,) = {pod["spec"]["serviceAccountName"] for pod in story.scheduler.pods()}
    user = f"--as=system:serviceaccount:{NAMESPACE}:{account}"

    assert cp.kubectl("auth", "can-i", "create", "bindings", user).strip() == "yes"
    for words in (("create", "pods"), ("list", "secrets"), ("*", "*")):
        with pytest.raises(ControlPlaneError):
            cp.kubectl("auth", "can-i", *words, user)


@pytest.mark.parametrize("container", ["scheduler", "webhook"])
def test_container_has_a_read_only_root_and_no_privileges(story: Story, container: str) -> None:
    """Seen from inside: no capability, no way to get one, filtered calls, a read-only root; and
    only the scheduler has a token."""
    pod = min(story.scheduler.names())

    seen = json.loads(story.scheduler.inside(pod, container, INSIDE))

    assert seen == {
        "Uid": "1000",
        "CapEff": "0000000000000000",
        "CapBnd": "0000000000000000",
        "NoNewPrivs": "1",
        "Seccomp": "2",
        "root": "Read-only file system",
        "code": "Read-only file system",
        "token": container == "scheduler",
    }


@pytest.mark.contract("S2-18", "S2-19")
def test_check_service_prints_its_node_and_devices(
    cp: ControlPlane, node: RealNode, story: Story
) -> None:
    """The seed's five pods are placed by their map, and the kubelet's log shows the seed's line."""
    labels = {"gpu-scheduler.io/maps": "allowed"}
    namespace = {"metadata": {"name": CHECKER.namespace, "labels": labels}}
    cp.client.create("/api/v1/namespaces", namespace)
    story.delivery.deploy(CHECKER, story.check.values(5))

    story.check.wait()

    story.check.wait_for_lines(node.name)
    assert f"Node: {node.name}, CUDA_VISIBLE_DEVICES: 0,1" in story.check.lines(0)


def test_deleted_leader_is_replaced_without_losing_pods(story: Story) -> None:
    """The other replica leads, running pods stay what they were, and new ones are placed."""
    containers = story.check.containers()
    leader = story.scheduler.wait_for_leader()

    story.scheduler.delete(leader)
    began = time.monotonic()
    story.scheduler.wait_for_leader(other_than=leader)
    log.info("led again after %.1f s", time.monotonic() - began)
    story.delivery.deploy(CHECKER, story.check.values(7))
    after = story.check.containers()

    assert {index: after[index] for index in containers} == containers
    assert after.keys() == {0, 1, 2, 3, 4, 5, 6}
    story.scheduler.wait(without={leader})


def test_new_certificate_is_loaded_during_reviews(cp: ControlPlane, story: Story) -> None:
    """The pair is lost: a replica makes the next one of the same authority, and at no time is a
    mapped pod admitted without its environment."""
    trusted, lost = story.scheduler.bundles(), story.scheduler.kept()
    reviewed = 0

    cp.client.patch(SECRET, {"data": {"tls.crt": None, "tls.key": None}})

    def taken_over() -> bool:
        nonlocal reviewed
        reviewed += story.check.is_reviewed()
        return story.scheduler.served() == {story.scheduler.kept()}

    wait_until(taken_over, what="both webhooks to serve the new certificate", timeout_s=180)
    assert story.scheduler.kept() != lost
    assert story.scheduler.bundles() == trusted
    assert "" not in trusted
    assert reviewed > 1
    assert story.check.is_reviewed()


def test_pods_created_while_both_replicas_are_dead_run_later(
    node: RealNode, newcomers: Newcomers, story: Story
) -> None:
    """Both are killed at once: a pod that no webhook has seen is let in, and runs with its
    environment once the replicas are back; pods that ran stay."""
    containers, killed = story.check.containers(), story.scheduler.names()

    for name in killed:
        story.scheduler.delete(name, grace_s=0)
    story.delivery.deploy(CHECKER, story.check.values(8))
    newcomers.wait_for_one()

    story.scheduler.wait(without=killed)
    after = story.check.containers()
    assert {index: after[index] for index in containers} == containers
    story.check.wait_for_line(7, node.name)


def test_changed_value_rolls_the_pods(story: Story) -> None:
    """An upgrade under running workloads: they stay, and the new replicas use the new value."""
    containers, old = story.check.containers(), story.scheduler.names()

    values: Json = {"scheduler": {"logJson": True}, "config": {"placement": "spread"}}
    story.delivery.deploy(SCHEDULER, values)

    new = {pod["metadata"]["name"] for pod in story.scheduler.wait(without=old)}
    for name in new:
        first = story.scheduler.log(name, "scheduler").splitlines()[0]
        assert json.loads(first), "one JSON object per line, as the value says"
    assert story.check.containers() == containers
    assert story.scheduler.wait_for_leader() in new


def test_rollback_restores_the_former_value(story: Story) -> None:
    """And takes neither the pods nor the API server's trust away."""
    containers, old = story.check.containers(), story.scheduler.names()
    trusted = story.scheduler.bundles()

    story.delivery.roll_back(SCHEDULER)

    for pod in story.scheduler.wait(without=old):
        assert not story.scheduler.log(pod["metadata"]["name"], "scheduler").startswith("{")
    assert story.check.containers() == containers
    assert story.scheduler.bundles() == trusted
    story.delivery.deploy(CHECKER, story.check.values(9))
    assert story.check.containers().keys() == {*range(9)}


def test_uninstall_leaves_only_crds(cp: ControlPlane, story: Story) -> None:
    """Running pods of the scheduler's users go on without it."""
    containers = story.check.containers()

    story.delivery.withdraw(SCHEDULER)

    story.scheduler.wait(replicas=0)
    assert story.check.containers() == containers
    story.delivery.withdraw(CHECKER)
    wait_until(lambda: not story.check.pods(), what="the check's pods to be gone")
    wait_until(
        lambda: left_since(cp, story.before) == API_KINDS, what="only the API kinds to be left"
    )


def test_uninstall_without_kept_crds_leaves_nothing(
    cp: ControlPlane, newcomers: Newcomers, story: Story
) -> None:
    """They are given up with the release if a value says so."""
    story.delivery.deploy(SCHEDULER, {"crd": {"keep": False}})
    story.scheduler.wait()

    with finalized_kinds(cp):
        story.delivery.withdraw(SCHEDULER)

    story.scheduler.wait(replicas=0)

    wait_until_gone(cp, lambda: left_since(cp, story.before))
    log.info("the slowest newcomer took %.0f ms", newcomers.slowest_s * 1000)
