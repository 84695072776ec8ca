"""The product delivered from git by a real ArgoCD, as one story: each test goes on where the one
before has ended.

A user's repository holds our charts; the files of ``argocd/`` are applied with its address in
them and with nothing else changed. What ArgoCD brings are pods of our image on the real node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
import yaml

from gpuctl.product import ROOT, merged
from tests.e2e.delivered import (
    CHECK_NAMESPACE,
    LOGICAL_NODE,
    NAMESPACE,
    SECRET,
    Check,
    Scheduler,
)
from tests.e2e.newcomers import Newcomers
from tests.leftovers import API_KINDS, KINDS, everything
from tools.controlplane import ControlPlane
from tools.controlplane.client import wait_until
from tools.controlplane.gitops import ArgoCD, Repository
from tools.controlplane.realnode import RealNode
from tools.image.build import ensure_images

pytestmark = pytest.mark.timeout(300)
ADDRESS: Final = "https://git.example.com/gpu-scheduler.git"
PROJECT: Final = "argocd/gpu-scheduler-project.yaml"
SET: Final = "argocd/gpu-scheduler-complete-applicationset.yaml"
SCHEDULER: Final = "local-cluster-gpu-scheduler"
CHECKER: Final = "local-cluster-gpu-test-service"
CHECK: Final = "gpu-test-service-gpu-scheduler-check"
CONFIG: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/gpu-scheduler-config"
RECONCILES: Final = 10


@dataclass(frozen=True, slots=True)
class Story:
    """Who takes part."""

    plane: ControlPlane
    argo: ArgoCD
    repository: Repository
    scheduler: Scheduler
    check: Check
    newcomers: Newcomers
    before: set[str]
    failed_before: int

    def change(self, chart: str, values: Mapping[str, Any], why: str) -> str:
        """Commit other values of a chart; the commit."""

        def over(text: str) -> str:
            return yaml.safe_dump(merged(yaml.safe_load(text), values), sort_keys=False)

        return self.repository.edit(f"charts/{chart}/values.yaml", over, why)

    def settled(self) -> None:
        """Wait until both Applications are at the repository's end."""
        for name in (SCHEDULER, CHECKER):
            self.argo.settled(name, self.repository.head)

    def versions(self) -> list[str]:
        """Each object of the product that ArgoCD looks after, with its version."""
        columns = "KIND:.kind,NAME:.metadata.name,VERSION:.metadata.resourceVersion"
        words = ("--all-namespaces", "--no-headers", "-o", f"custom-columns={columns}")
        kinds = KINDS.replace("leases,", "")  # the election writes it every two seconds
        found = self.plane.kubectl("get", kinds, *words).splitlines()
        return [line for line in found if "gpu-scheduler" in line]


@pytest.fixture(scope="module")
def story(
    cp: ControlPlane,
    node: RealNode,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Story]:
    """ArgoCD runs and has nothing to do yet; at the end nothing of the product is left."""
    path = f"/api/v1/nodes/{node.name}"
    node.load(ensure_images().archive)
    cp.client.patch(path, {"metadata": {"labels": {"gpu-node-name": LOGICAL_NODE}}})
    cp.client.create("/api/v1/namespaces", {"metadata": {"name": "bystanders"}})
    cp.wait_for_service_account("bystanders")
    directory = tmp_path_factory.mktemp("gitops")
    repository = Repository.of(directory / "git", ROOT, ("charts", "argocd"))
    with (
        ArgoCD.start(cp, directory / "argocd") as argo,
        Newcomers(cp, "bystanders") as newcomers,
    ):
        yield Story(
            plane=cp,
            argo=argo,
            repository=repository,
            scheduler=Scheduler(cp),
            check=Check(cp, CHECK),
            newcomers=newcomers,
            before=everything(cp),
            failed_before=request.session.testsfailed,
        )
        _remove(cp, argo)
    cp.client.patch(path, {"metadata": {"labels": {"gpu-node-name": None}}})


def _remove(cp: ControlPlane, argo: ArgoCD) -> None:
    """Whatever a test has left: its Applications first, since they bring everything back."""
    words = ("--ignore-not-found", "--timeout=120s")
    cp.kubectl("delete", "applicationsets,applications", "--all", "-n", "argocd", *words)
    wait_until(lambda: argo.application(SCHEDULER) is None, what="the Applications to be gone")
    for name in API_KINDS:
        cp.kubectl("delete", name, *words)
    for namespace in (NAMESPACE, CHECK_NAMESPACE, "bystanders"):
        cp.kubectl("delete", "namespace", namespace, *words)


@pytest.fixture(autouse=True)
def each_newcomer_is_let_in(story: Story, request: pytest.FixtureRequest) -> Iterator[None]:
    """At the end of every step; and a story of which a step has failed is not told on."""
    if request.session.testsfailed > story.failed_before:
        pytest.fail("an earlier step of this story has failed", pytrace=False)
    yield
    story.newcomers.were_let_in()


def test_the_set_brings_both_charts_until_they_are_synced_and_healthy(
    node: RealNode, story: Story
) -> None:
    """Scheduler and webhook run on the real node, the check's pods stand where their map says."""
    story.change("gpu-scheduler-check", story.check.values(5), "Our node")
    for name in (PROJECT, SET):
        text = (story.repository.directory / name).read_text()
        assert ADDRESS in text
        text = text.replace(ADDRESS, story.repository.url)
        story.plane.kubectl("apply", "-f", "-", input=text)

    story.settled()

    pods = story.scheduler.wait()
    assert {pod["spec"]["nodeName"] for pod in pods} == {node.name}
    story.check.wait()
    for index, devices in story.check.expected.items():
        line = f"Node: {node.name}, CUDA_VISIBLE_DEVICES: {devices}"
        wait_until(lambda: line in story.check.lines(index), what=f"{line!r} of pod {index}")  # noqa: B023


def test_ten_comparisons_after_a_new_certificate_find_nothing_to_do(story: Story) -> None:
    """The pair and the API server's trust in it are the product's own: ArgoCD calls neither a
    difference, and takes nothing of them back."""
    before = story.scheduler.bundles()
    story.plane.client.patch(SECRET, {"data": {"tls.crt": None, "tls.key": None}})
    wait_until(
        lambda: story.scheduler.served() == {story.scheduler.kept()},
        what="both webhooks to serve the new certificate",
        timeout_s=90,
    )
    trusted, versions = story.scheduler.bundles(), story.versions()
    assert trusted != before

    seen = [
        (application["status"]["sync"]["status"], application["status"]["health"]["status"])
        for _ in range(RECONCILES)
        for application in map(story.argo.refresh, (SCHEDULER, CHECKER))
    ]

    assert seen == [("Synced", "Healthy")] * 2 * RECONCILES
    assert story.scheduler.bundles() == trusted
    assert story.versions() == versions, "somebody writes although nothing changes"


def test_what_a_hand_has_changed_is_put_back(story: Story) -> None:
    """A setting that git does not know lives for a moment only."""
    told = story.plane.client.get(CONFIG)["data"]

    story.plane.client.patch(CONFIG, {"data": {"config.yaml": "placement: spread\n"}})

    def is_back() -> bool:
        story.argo.refresh(SCHEDULER)
        return bool(story.plane.client.get(CONFIG)["data"] == told)

    wait_until(is_back, what="the setting of git", timeout_s=60)
    story.settled()


def test_a_value_and_a_version_that_change_in_git_replace_the_pods(story: Story) -> None:
    """The new chart's replicas come one by one, and running workloads stay what they are."""
    containers, old = story.check.containers(), story.scheduler.names()
    chart = "charts/gpu-scheduler/Chart.yaml"
    story.repository.edit(chart, lambda text: f"{text}\nannotations: {{upgraded: 'yes'}}\n", "Up")
    story.change("gpu-scheduler", {"scheduler": {"logJson": True}}, "Logs for machines")

    story.settled()

    for pod in story.scheduler.wait(without=old):
        assert story.scheduler.log(pod["metadata"]["name"], "scheduler").startswith("{")
    assert story.check.containers() == containers


def test_a_revert_in_git_brings_the_former_value_back(story: Story) -> None:
    containers, old = story.check.containers(), story.scheduler.names()
    trusted = story.scheduler.bundles()
    story.repository.revert()

    story.settled()

    for pod in story.scheduler.wait(without=old):
        assert not story.scheduler.log(pod["metadata"]["name"], "scheduler").startswith("{")
    assert story.check.containers() == containers
    assert story.scheduler.bundles() == trusted


def test_a_deleted_leader_is_followed_and_the_next_commit_is_placed(story: Story) -> None:
    """No running pod is lost, and two more of them get their devices from the other replica."""
    containers, leader = story.check.containers(), story.scheduler.wait_for_leader()

    story.scheduler.delete(leader)
    story.scheduler.wait_for_leader(other_than=leader)
    story.change("gpu-scheduler-check", story.check.values(7), "Two more")
    story.settled()

    after = story.check.containers()
    assert {index: after[index] for index in containers} == containers
    assert after.keys() == {*range(7)}
    story.scheduler.wait(without={leader})


def test_without_the_set_only_the_api_kinds_and_the_lease_are_left(story: Story) -> None:
    """ArgoCD takes everything away that it has brought. Kinds with users' objects stay, and the
    election's Lease, which ArgoCD leaves out of its work in every cluster."""
    expected = API_KINDS | {"lease.coordination.k8s.io/gpu-scheduler"}
    story.plane.kubectl("delete", "-n", "argocd", "-f", str(story.repository.directory / SET))

    def left() -> list[str]:
        found = everything(story.plane) - story.before
        return sorted(one for one in found if "gpu-scheduler" in one)

    wait_until(
        lambda: left() == sorted(expected), what="the rest to be gone", timeout_s=90, last=left
    )
    story.scheduler.wait(replicas=0)
    wait_until(lambda: not story.check.pods(), what="the check's pods to be gone")
