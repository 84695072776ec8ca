"""``helm upgrade`` from the build before the API got its present names, and ``helm rollback``.

Both versions run from their own trees, side by side as in a rolling update: with 200 running pods,
pods with a smaller MIG instance than they requested, a migration in progress, and a stream of new
pods.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler.model import well_known
from scheduler.model.crd import former_version, migration_codec
from tests.controlplane import device_audit
from tests.controlplane.balancer import Balancer
from tests.controlplane.conftest import MakeNode
from tests.controlplane.migration_scene import BIG, SMALL, of, uids
from tests.controlplane.release import NAME, NAMESPACE, REGISTRATION, Release
from tests.controlplane.test_upgrade import WAIT
from tests.controlplane.version_scene import (
    Replica,
    Stream,
    leader_address,
    tree_of,
    wait_leads,
)
from tests.controlplane.workloads import Json, Watcher, annotation, controlled, node_of, pod, tier
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import free_ports
from tools.product import ROOT

#: The last build with the former names (docs/upgrade.md).
FORMER: Final = "8db2d483a70eb9b959f8cb0423eda2aaf882086a"
RUNNING: Final = 200
GPU_NODES: Final = 27
STREAM: Final = 10
GRACE_S: Final = 300
ONE_GPU: Final[dict[str, Any]] = {"limits": {"nvidia.com/gpu": "1"}}
NUMBERED: Final = {well_known.NUMBERED: "numbered"}
FORMER_TICKETS: Final = former_version.path(former_version.MIGRATIONS, NAMESPACE)
TICKETS: Final = migration_codec.path(NAMESPACE)

#: Shown by `pytest --log-cli-level=info`.
figures = logging.getLogger("figures")


@pytest.fixture(scope="module")
def cp(untouched: ControlPlane) -> ControlPlane:
    """With a kube-scheduler for the release's own pods, and a whole audit log."""
    return untouched


class Scene:
    """The cluster's workloads: the same checks after each step."""

    def __init__(self, cp: ControlPlane, here: Watcher, service: Balancer, stream: Stream) -> None:
        self.cp = cp
        self.here = here
        self.service = service
        self.stream = stream
        self.running: set[tuple[str, ...]] = set()
        self.capacity = {f"gpus-{n}": {"gpu": 8} for n in range(GPU_NODES)}

    def works(self, step: str) -> None:
        """Every running pod is as it was, and new pods are placed."""
        before = self.stream.created
        self.stream.wait_more(4)
        assert self.as_they_run() == self.running, step
        assert self.crimes() == [], step
        figures.info("%s: %d pods of the stream since", step, self.stream.created - before)

    def as_they_run(self) -> set[tuple[str, ...]]:
        """The Deployment's pods with nodes and devices, and that none was restarted."""
        found: set[tuple[str, ...]] = set()
        for item in of(self.here.pods(), "work"):
            restarts = sum(one["restartCount"] for one in item["status"]["containerStatuses"])
            devices = annotation(item, well_known.DEVICES) or ""
            found.add((item["metadata"]["uid"], node_of(item), devices, str(restarts)))
        assert len(found) == RUNNING
        return found

    def crimes(self) -> list[str]:
        """Devices held twice at any moment until now, by the audit log."""
        log = self.cp.audit_log
        assert log is not None
        return device_audit.crimes(device_audit.read(log, self.here.namespace).stays, self.capacity)

    def review_by(self, *replicas: Replica) -> None:
        """The Service's endpoints."""
        self.service.passed = dict.fromkeys((one.webhook_port for one in replicas), 0)

    def reach(self) -> None:
        """The balancer in the Service's place, after each change of the registration."""
        hooks = self.cp.client.get(REGISTRATION)["webhooks"]
        patch: list[Json] = []
        for number, hook in enumerate(hooks):
            at, service = f"/webhooks/{number}/clientConfig", hook["clientConfig"]["service"]
            url = f"https://localhost:{self.service.port}{service['path']}"
            patch += [
                {"op": "remove", "path": f"{at}/service"},
                {"op": "add", "path": f"{at}/url", "value": url},
            ]
        self._services = [hook["clientConfig"]["service"] for hook in hooks]
        self.cp.client.patch(REGISTRATION, patch, content_type="application/json-patch+json")

    def reach_no_more(self) -> None:
        """As helm made it."""
        patch: list[Json] = []
        for number, service in enumerate(self._services):
            at = f"/webhooks/{number}/clientConfig"
            patch += [
                {"op": "remove", "path": f"{at}/url"},
                {"op": "add", "path": f"{at}/service", "value": service},
            ]
        self.cp.client.patch(REGISTRATION, patch, content_type="application/json-patch+json")


class MigScene:
    """A namespace and a node with one big and three small instances; ``close`` admits no pods."""

    def __init__(self, cp: ControlPlane, scene: Scene, kwok_node: MakeNode, name: str) -> None:
        self.cp = cp
        self.scene = scene
        cp.client.create("/api/v1/namespaces", {"metadata": {"name": name}})
        cp.wait_for_service_account(name)
        self.here = Watcher(cp, name)
        self.near = {"nodeSelector": {"mig": name}}
        self.capacity = {name: {"2g.20gb": 1, "1g.10gb": 3}}
        kwok_node(name, mig=self.capacity[name], labels={"mig": name})
        self._quotas = f"/api/v1/namespaces/{name}/resourcequotas"

    def degrade(self) -> list[Json]:
        """Two pods of a Deployment get the small instance, because a bare pod has the big one."""
        self.here.create(pod("holder", limits={BIG: "1"}, **self.near))
        self.here.wait_bound(1)
        # The deadline of a migration is a minute after the grace period.
        spec: Json = {"terminationGracePeriodSeconds": GRACE_S, **self.near}
        self.here.create(controlled("Deployment", "web", replicas=2, limits={BIG: "1"}, **spec))
        items = self.here.wait_bound(3)
        assert [tier(item) for item in of(items, "web")] == [{SMALL: "1"}] * 2
        return of(items, "web")

    def open_migration(self, path: str) -> Json:
        """Free the big instance; the evicted pod's replacement is not created yet."""
        before = of(self.here.pods(), "web")
        self.close()
        self.here.client.delete(self.here.path("Pod", "holder"), {"gracePeriodSeconds": 0})
        wait_until(
            lambda: len(uids(of(self.here.pods(), "web")) & uids(before)) == 1,
            what="a pod to be evicted",
        )
        return self.tickets(path)[0]

    def tickets(self, path: str) -> list[Json]:
        """The migrations of this namespace that are in progress."""
        items = self.cp.client.get(path)["items"]
        ours = [one for one in items if one["spec"]["pod"]["namespace"] == self.here.namespace]
        return [one for one in ours if "status" not in one]

    def close(self) -> None:
        """Admit no pod in this namespace."""
        spec = {"metadata": {"name": "shut"}, "spec": {"hard": {"pods": "0"}}}
        self.here.client.create(self._quotas, spec)
        self.here.client.wait_for(
            f"{self._quotas}/shut",
            lambda seen: "hard" in seen.get("status", {}),
            what="the quota to hold",
        )

    def open(self) -> None:
        """Admit pods again; the change of a ReplicaSet ends its controller's growing backoff."""
        self.here.client.delete(f"{self._quotas}/shut")
        sets = f"/apis/apps/v1/namespaces/{self.here.namespace}/replicasets"
        wanted = len(of(self.here.pods(), "web")) + 1
        count = itertools.count()

        def is_created() -> bool:
            for one in self.cp.client.get(sets)["items"]:
                note = {"metadata": {"annotations": {"touched": str(next(count))}}}
                self.cp.client.patch(f"{sets}/{one['metadata']['name']}", note)
            return len(of(self.here.pods(), "web")) >= wanted

        wait_until(is_created, what="the replacement to be created")

    def two_run(self) -> list[Json]:
        """The Deployment has its two pods, bound."""
        items = self.here.wait(
            "two bound pods of web",
            lambda seen: sum(bool(node_of(i)) for i in of(seen, "web")) == 2,
        )
        log = self.cp.audit_log
        assert log is not None
        stays = device_audit.read(log, self.here.namespace).stays
        assert device_audit.crimes(stays, self.capacity) == []
        return of(items, "web")


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_pods_and_a_migration_survive_upgrade_and_rollback(
    cp: ControlPlane, namespace: str, kwok_node: MakeNode, tmp_path: Path
) -> None:
    """No device is held twice, and no pod is lost: with one version, with both, and after."""
    old_tree = tree_of(FORMER, tmp_path / "former")
    chart = old_tree / "charts/gpu-scheduler"
    for number in range(GPU_NODES):
        kwok_node(f"gpus-{number}", gpus=8, labels=NUMBERED)
    here = Watcher(cp, namespace)
    ports = iter(zip(*[iter(free_ports(24))] * 4, strict=True))

    def replica(name: str, tree: Path) -> Replica:
        return Replica(cp, tmp_path / name, tree, next(ports))

    old = [replica("old-1", old_tree), replica("old-2", old_tree)]
    new = [replica("new-1", ROOT), replica("new-2", ROOT)]
    back = [replica("back-1", old_tree), replica("back-2", old_tree)]
    release = Release(cp, tmp_path / "release")
    try:
        with (
            Balancer([]) as service,
            Stream(here, STREAM, **ONE_GPU) as stream,
        ):
            scene = Scene(cp, here, service, stream)
            release.install(*WAIT, chart=chart)
            start_all(scene, old)
            forward = MigScene(cp, scene, kwok_node, "mig-forward")
            rearward = MigScene(cp, scene, kwok_node, "mig-rearward")
            fill(scene)
            forward.degrade()
            former = forward.open_migration(FORMER_TICKETS)
            scene.works("before")

            upgrade(scene, release, old, new)
            finished_by_the_new_version(forward, former["metadata"]["name"])

            rearward.degrade()
            rearward.open_migration(TICKETS)
            roll_back(scene, release, new, back)
            rearward.open()
            tiers = Counter(str(tier(item)) for item in rearward.two_run())
            figures.info("after the rollback the two pods have %s", dict(tiers))
            forward.two_run()
            scene.works("after the rollback")
        assert stream.refused == []
        pending = [i["metadata"]["name"] for i in here.pods() if not node_of(i)]
        wait_until(lambda: all(node_of(i) for i in here.pods()), what=f"{pending} to be bound")
        assert scene.crimes() == []
        record = device_audit.read(cp.audit_log or Path(), namespace)
        figures.info(
            "bindings %d, refused bindings %s, pods of the stream %d",
            *(len(record.stays), Counter(record.refused), stream.created),
        )
    finally:
        for one in (*old, *new, *back):
            one.stop()
        for name in ("mig-forward", "mig-rearward"):
            cp.client.delete_if_there(f"/api/v1/namespaces/{name}")
            cp.client.delete(f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
        release.helm("uninstall", NAME, "--wait", "--ignore-not-found")


def fill(scene: Scene) -> None:
    """The running pods."""
    scene.here.create(controlled("Deployment", "work", replicas=RUNNING, **ONE_GPU))
    scene.here.wait(
        f"{RUNNING} running pods",
        lambda items: sum(i["status"]["phase"] == "Running" for i in of(items, "work")) == RUNNING,
        timeout_s=120,
    )
    scene.running = scene.as_they_run()


def start_all(scene: Scene, replicas: list[Replica]) -> None:
    """The first replicas of a release."""
    for one in replicas:
        one.start()
    wait_leads(scene.cp, *replicas)
    scene.review_by(*replicas)
    scene.reach()


def sides(scene: Scene, replicas: list[Replica]) -> tuple[Replica, Replica]:
    """Leader and standby."""
    first, second = replicas
    return (first, second) if leader_address(scene.cp) == first.address else (second, first)


def upgrade(scene: Scene, release: Release, old: list[Replica], new: list[Replica]) -> None:
    """The chart at once, then replica after replica; the old leader goes last."""
    leader, standby = sides(scene, old)
    scene.reach_no_more()
    release.upgrade("--reuse-values", "--force-conflicts")
    scene.reach()
    replace_each(scene, (leader, standby), new, "upgrade")


def roll_back(scene: Scene, release: Release, new: list[Replica], back: list[Replica]) -> None:
    """The same in the other direction."""
    leader, standby = sides(scene, new)
    scene.reach_no_more()
    release.helm("rollback", NAME, "1", "--force-conflicts")
    scene.reach()
    replace_each(scene, (leader, standby), back, "rollback")


def replace_each(
    scene: Scene, former: tuple[Replica, Replica], later: list[Replica], word: str
) -> None:
    leader, standby = former
    scene.works(f"{word}: the former leader with the other version's roles and policies")
    later[0].start()
    assert leader_address(scene.cp) == leader.address
    scene.review_by(leader, standby, later[0])
    scene.works(f"{word}: former leader, standbys of both versions")
    scene.review_by(later[0])
    scene.works(f"{word}: former leader, reviews by the other version's standby")
    standby.stop()
    later[1].start()
    scene.review_by(*later)
    leader.stop()
    wait_leads(scene.cp, *later)
    scene.works(f"{word}: both replicas of the other version")


def finished_by_the_new_version(mig: MigScene, name: str) -> None:
    """The migration that the former version began, with its reservation."""
    (ticket,) = mig.tickets(TICKETS)
    assert ticket["metadata"]["name"] == name
    assert mig.cp.client.get(FORMER_TICKETS)["items"] == []
    no_one_takes_the_instance(mig)
    mig.open()
    items = mig.two_run()
    assert sorted(str(tier(item)) for item in items) == [str({SMALL: "1"}), str({BIG: "1"})]
    (restored,) = [item for item in items if tier(item) == {BIG: "1"}]
    assert annotation(restored, well_known.MIGRATION) == name
    wait_until(lambda: not mig.tickets(TICKETS), what="the migration to be complete")


def no_one_takes_the_instance(mig: MigScene) -> None:
    """The open migration reserves it, also from pods of other namespaces."""
    here = mig.scene.here
    fallback = {well_known.MIG_FALLBACK: "off"}
    here.create(pod("thief", annotations=fallback, limits={BIG: "1"}, **mig.near))
    here.wait_explained("thief", "Insufficient nvidia.com/mig-2g.20gb (need 1; best node has 0")
    here.client.delete(here.path("Pod", "thief"))
