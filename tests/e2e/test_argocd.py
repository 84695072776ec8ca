"""The product delivered from git by a real ArgoCD, as one story: each test goes on where the one
before has ended. What ArgoCD brings are pods of our image on the real node.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.controlplane.terminal import Terminal
from tests.e2e.delivered import NAMESPACE, SECRET, Check, Scheduler
from tests.e2e.gitops import (
    CHECK,
    CHECKER,
    CLUSTER,
    CLUSTERS,
    COMPLETE,
    PROJECT,
    SCHEDULER,
    STAGES,
    Story,
)
from tests.e2e.newcomers import Newcomers
from tests.leftovers import everything
from tools.controlplane import ControlPlane
from tools.controlplane.client import wait_until
from tools.controlplane.gitops import ArgoCD, Repository
from tools.product import ROOT
from tools.realnode import RealNode

pytestmark = pytest.mark.usefixtures("step")
SCRIPT: Final = "argocd/validate-applicationset.sh"
CONFIG: Final = f"/api/v1/namespaces/{NAMESPACE}/configmaps/gpu-scheduler-config"
DEPLOYMENT: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/gpu-scheduler"
RECONCILES: Final = 10
#: Pods that came past the webhook wait this long for it, instead of the default of 30 s.
RECREATE_S: Final = 5


@pytest.fixture(scope="module")
def story(
    cp: ControlPlane, newcomers: Newcomers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """ArgoCD runs and has nothing to do yet; at the end nothing of the product is left."""
    newcomers.wait_for_one()
    directory = tmp_path_factory.mktemp("gitops")
    repository = Repository.of(directory / "git", ROOT, ("charts", "argocd"))
    with ArgoCD.start(cp, directory / "argocd") as argo:
        one = Story(
            plane=cp,
            argo=argo,
            repository=repository,
            scheduler=Scheduler(cp),
            check=Check(cp, CHECK),
            before=everything(cp),
        )
        yield one
        one.remove()


@pytest.mark.contract("S2-B15")
def test_argocd_files_validate(cp: ControlPlane, story: Story, tmp_path: Path) -> None:
    """The page's script says what to do where no set would find a cluster."""
    terminal = Terminal(cp, tmp_path)

    refused = terminal.type(SCRIPT)
    story.apply(CLUSTER)
    done = terminal.type(SCRIPT)

    assert refused.returncode == 1
    assert f"kubectl apply -f argocd/{CLUSTER}" in refused.stderr
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.contract("S2-26")
def test_application_set_syncs_both_charts_to_healthy(node: RealNode, story: Story) -> None:
    """Scheduler and webhook run on the real node, the check's pods stand where their map says."""
    story.change("gpu-scheduler-check", story.check.values(3), "Our node")
    story.change("gpu-scheduler", {"config": {"webhook": {"recreateAfterS": RECREATE_S}}}, "Sooner")
    story.apply(PROJECT)
    story.apply(COMPLETE)

    story.settled()

    pods = story.scheduler.wait()
    assert {pod["spec"]["nodeName"] for pod in pods} == {node.name}
    story.check.wait_for_lines(node.name)


def test_applications_sync_independently(story: Story) -> None:
    """ArgoCD honours waves inside one Application: that of the check did not wait, so its pods came
    past a webhook that was not there yet, and have got their devices all the same."""
    check, scheduler = (
        story.argo.application(name)["status"]["history"][0] for name in (CHECKER, SCHEDULER)
    )
    assert check["deployStartedAt"] < scheduler["deployedAt"]


def test_renewed_certificate_causes_no_drift(story: Story) -> None:
    """The pair is the product's own, and each rendering of the chart makes another authority:
    ArgoCD keeps the one that it wrote first, and calls nothing a difference."""
    trusted = story.scheduler.bundles()
    story.plane.client.patch(SECRET, {"data": {"tls.crt": None, "tls.key": None}})
    wait_until(
        lambda: story.scheduler.served() == {story.scheduler.kept()},
        what="both webhooks to serve the new certificate",
        timeout_s=180,
    )
    versions = story.versions()
    assert "" not in trusted

    seen = [
        (application["status"]["sync"]["status"], application["status"]["health"]["status"])
        for _ in range(RECONCILES)
        for application in map(story.argo.refresh, (SCHEDULER, CHECKER))
    ]

    assert seen == [("Synced", "Healthy")] * 2 * RECONCILES
    assert story.scheduler.bundles() == trusted
    assert story.versions() == versions, "objects are written although nothing changes"


def test_manual_change_is_reverted(story: Story) -> None:
    """A setting that git does not know lives for a moment only."""
    told = story.plane.client.get(CONFIG)["data"]

    story.plane.client.patch(CONFIG, {"data": {"config.yaml": "placement: spread\n"}})

    def is_back() -> bool:
        story.argo.refresh(SCHEDULER)
        return bool(story.plane.client.get(CONFIG)["data"] == told)

    wait_until(is_back, what="the setting of git", timeout_s=180)
    story.settled()


def test_git_change_of_value_and_version_replaces_the_pods(story: Story) -> None:
    """The new chart's replicas come one by one, and running workloads stay what they are."""
    containers, old = story.check.containers(), story.scheduler.names()
    chart = "charts/gpu-scheduler/Chart.yaml"
    story.repository.edit(chart, lambda text: f"{text}\nannotations: {{upgraded: 'yes'}}\n", "Up")
    story.change("gpu-scheduler", {"scheduler": {"logJson": True}}, "Logs for machines")

    story.settled()

    for pod in story.scheduler.wait(without=old):
        assert story.scheduler.log(pod["metadata"]["name"], "scheduler").startswith("{")
    assert story.check.containers() == containers


def test_git_revert_restores_the_former_value(story: Story) -> None:
    containers, old = story.check.containers(), story.scheduler.names()
    trusted = story.scheduler.bundles()
    story.repository.revert()

    story.settled()

    for pod in story.scheduler.wait(without=old):
        assert not story.scheduler.log(pod["metadata"]["name"], "scheduler").startswith("{")
    assert story.check.containers() == containers
    assert story.scheduler.bundles() == trusted


def test_deleted_leader_is_replaced_and_the_next_commit_is_placed(story: Story) -> None:
    """No running pod is lost, and two more of them get their devices from the other replica."""
    containers, leader = story.check.containers(), story.scheduler.wait_for_leader()

    story.scheduler.delete(leader)
    story.scheduler.wait_for_leader(other_than=leader)
    story.change("gpu-scheduler-check", story.check.values(5), "Two more")
    story.settled()

    after = story.check.containers()
    assert {index: after[index] for index in containers} == containers
    assert after.keys() == {*range(5)}
    story.scheduler.wait(without={leader})


def test_removed_component_is_deleted_alone(story: Story) -> None:
    """Its Application goes with all its objects. The scheduler's objects are not written."""
    before, replicas = story.versions(), story.scheduler.names()

    story.apply(COMPLETE, without="test-service")
    wait_until(lambda: story.argo.application(CHECKER) is None, what="the Application to be gone")

    wait_until(lambda: not story.check.pods(), what="the check's pods to be gone")
    kept = [line for line in before if CHECK not in line]
    assert len(kept) < len(before)
    assert story.versions() == kept
    assert story.scheduler.names() == replicas


def test_returning_component_is_deployed_again(node: RealNode, story: Story) -> None:
    story.apply(COMPLETE)

    story.settled()

    story.check.wait()
    story.check.wait_for_lines(node.name)


def test_deleted_set_leaves_only_crds_and_the_lease(story: Story) -> None:
    """ArgoCD takes everything away that it has brought. Kinds with users' objects stay, and the
    election's Lease, which ArgoCD leaves out of its work in every cluster."""
    story.delete(COMPLETE)

    story.wait_for_the_end()


def test_reapplied_set_deploys_the_product_again(node: RealNode, story: Story) -> None:
    """On the API server that has seen its former leaders; pods are bound again."""
    story.change("gpu-scheduler-check", story.check.values(2), "Two are enough")
    story.apply(COMPLETE)

    story.settled()

    story.scheduler.wait()
    story.check.wait()
    story.check.wait_for_lines(node.name)


def test_cluster_set_adopts_existing_applications(story: Story) -> None:
    """It finds the cluster by its Secret and makes Applications of the same names. Where the other
    set is deleted without them, no pod notices."""
    containers, replicas = story.check.containers(), story.scheduler.names()

    story.delete(COMPLETE, orphan=True)
    story.apply(CLUSTERS)

    for name in (SCHEDULER, CHECKER):
        story.wait_for_owner(name, "gpu-scheduler-clusters")
    story.settled()
    assert story.check.containers() == containers
    assert story.scheduler.names() == replicas


def test_cluster_moving_from_dev_to_prod_upgrades_in_place(story: Story) -> None:
    """By the label of its Secret: dev follows the branch, prod stays at the tag, whose values
    replace the pods one by one; and running workloads stay what they are."""
    containers, old = story.check.containers(), story.scheduler.names()
    deployment = story.plane.client.get(DEPLOYMENT)["metadata"]["uid"]
    story.repository.tag("v1.0.0")
    release = story.repository.head
    story.change("gpu-scheduler", {"scheduler": {"logJson": True}}, "Newer than the release")

    story.delete(CLUSTERS, orphan=True)
    story.apply(STAGES)
    seen = story.wait_for_owner(SCHEDULER, "gpu-scheduler-stages")
    assert seen["status"]["sync"]["revision"] == story.repository.head
    secret = ("secret", "local-cluster", "--namespace=argocd")
    story.plane.kubectl("label", *secret, "gpu-scheduler.io/stage=prod", "--overwrite")

    story.argo.settled(SCHEDULER, release)
    for pod in story.scheduler.wait(without=old):
        assert not story.scheduler.log(pod["metadata"]["name"], "scheduler").startswith("{")
    assert story.plane.client.get(DEPLOYMENT)["metadata"]["uid"] == deployment
    assert "mode: report" in story.plane.client.get(CONFIG)["data"]["config.yaml"]
    assert story.check.containers() == containers


def test_owning_set_deletes_the_product(story: Story) -> None:
    """That of stages has no check service; the Application without an owner goes by itself."""
    story.delete(STAGES)
    story.plane.kubectl("delete", "application", CHECKER, "--namespace=argocd")

    story.wait_for_the_end()
