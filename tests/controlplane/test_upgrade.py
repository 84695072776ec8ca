"""Upgrades beneath running pods: no pod is lost or restarted, with either helm.

The release's own pods are real objects here: the real kube-scheduler places them on KWOK's nodes,
so helm's ``--wait`` means what it says. The scheduler that decides is a process beside them, which
takes the release's configuration and rights and is restarted after each change, as the pod is.
"""

from __future__ import annotations

import base64
import contextlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from cryptography import x509

from tests.controlplane.conftest import MakeNode
from tests.controlplane.release import NAME, NAMESPACE, Release
from tests.controlplane.workloads import Json, Watcher, controlled, node_of, pod
from tests.leftovers import API_KINDS, everything, wait_until_gone
from tools.charts.copies import SCHEDULER
from tools.charts.helm import HELMS
from tools.controlplane import ApiError, ControlPlane, ControlPlaneError, wait_until
from tools.product import ROOT

CHART: Final = SCHEDULER.relative_to(ROOT)
RUNNING: Final = 100
WAIT: Final = ("--wait", "--timeout=240s")
TICKETS: Final = f"/apis/gpu-scheduler.io/v1alpha1/namespaces/{NAMESPACE}/podmigrations"
TICKET: Final = {
    "apiVersion": "gpu-scheduler.io/v1alpha1",
    "kind": "PodMigration",
    "metadata": {"name": "kept"},
    "spec": {
        "type": "Restore",
        "pod": {"namespace": "default", "name": "p", "uid": "u"},
        "owner": {"kind": "ReplicaSet", "name": "r", "uid": "u"},
        "workload": {"kind": "Deployment", "name": "d", "uid": "u"},
        "workloadKey": "default/Deployment/d",
        "change": "1g.10gb->2g.20gb",
        "from": {"nvidia.com/mig-1g.10gb": 1},
        "to": {"nvidia.com/mig-2g.20gb": 1},
        "node": "worker-1",
        "requests": {},
        "attempt": 1,
        "replicas": 1,
        "deadline": "2030-01-01T00:00:00Z",
    },
}


@pytest.fixture(scope="module")
def cp(untouched: ControlPlane) -> ControlPlane:
    """With a kube-scheduler, and nothing of ours installed."""
    return untouched


@pytest.fixture
def workers(kwok_node: MakeNode) -> list[str]:
    """Two plain nodes: no label of a control plane, no taint."""
    return [kwok_node(f"worker-{number}", gpus=RUNNING) for number in (1, 2)]


def git(*words: str) -> bytes:
    """What git says of this repository."""
    return subprocess.run(
        ["git", "-C", ROOT, *words], capture_output=True, check=True, timeout=60
    ).stdout


def before_last_change() -> str:
    """The commit before the chart's last change; in a clone that is cut off there, the last one."""
    last = git("rev-list", "-1", "HEAD", "--", str(CHART)).decode().strip()
    parents = git("rev-list", "--parents", "-1", last).decode().split()[1:]
    return parents[0] if parents else last


@pytest.fixture
def previous(tmp_path: Path) -> Path:
    """The chart of that commit."""
    archive = git("archive", before_last_change(), str(CHART))
    with tarfile.open(fileobj=io.BytesIO(archive)) as content:
        content.extractall(tmp_path / "previous", filter="data")
    return tmp_path / "previous" / CHART


@pytest.fixture
def next_one(tmp_path: Path) -> Path:
    """The chart of a later version, whose tickets have one field more."""
    chart = tmp_path / "next"
    shutil.copytree(SCHEDULER, chart)
    path = chart / "files/cluster/crd-podmigrations.yaml"
    crd = yaml.safe_load(path.read_text(encoding="utf-8"))
    (version,) = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["reason"] = {"type": "string"}
    path.write_text(yaml.safe_dump(crd), encoding="utf-8")
    return chart


@pytest.mark.contract("S2-20")
def test_default_values_run_on_unlabelled_nodes(
    cp: ControlPlane, workers: list[str], tmp_path: Path
) -> None:
    """As in a managed cloud, whose control plane has no nodes; the replicas keep apart."""
    release = Release(cp, tmp_path)
    try:
        release.install(*WAIT)
        assert sorted(node_of(each) for each in own_pods(cp)) == workers
        notes = release.helm("get", "notes", NAME)
        assert f"kubectl -n {NAMESPACE} rollout status deployment/gpu-scheduler" in notes
        assert "webhook's certificate in the Secret gpu-scheduler-webhook-tls" in notes
        for name in workers:
            labels = cp.client.get(f"/api/v1/nodes/{name}")["metadata"]["labels"]
            assert not [key for key in labels if key.startswith("node-role.kubernetes.io")]
    finally:
        remove(cp, release)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "by", [pytest.param(one, marks=pytest.mark.nightly if one != HELMS[0] else ()) for one in HELMS]
)
def test_running_pods_survive_upgrade_downgrade_and_new_crds(
    cp: ControlPlane,
    workers: list[str],
    namespace: str,
    tmp_path: Path,
    previous: Path,
    next_one: Path,
    by: str,
) -> None:
    """Upgraded with the values as they were, from the chart before its last change and back."""
    here = Watcher(cp, namespace)
    with Release(cp, tmp_path / "release", by=by) as release:
        try:
            release.install("--set", "scheduler.verbose=true", *WAIT, chart=previous)
            release.start()
            release.reach()
            here.create(controlled("Deployment", "work", replicas=RUNNING, **ONE_GPU))
            here.wait_bound(RUNNING)
            running = as_they_run(here)
            change(
                release, "upgrade", NAME, SCHEDULER, "--reuse-values", *once(by, previous), *WAIT
            )
            assert_reviews_are_trusted(release)
            assert "verbose" in release.helm("get", "manifest", NAME)
            place_another(here, "upgraded")
            assert as_they_run(here) == running
            change(release, "rollback", NAME, "1", *WAIT)
            place_another(here, "downgraded")
            assert as_they_run(here) == running
            release.stop()
            new_api_kinds(cp, release, next_one, *once(by, previous))
            assert as_they_run(here) == running
        finally:
            remove(cp, release)
    assert as_they_run(here) == running


def once(by: str, previous: Path) -> tuple[str, ...]:
    """What docs/upgrade.md says for charts whose scheduler wrote into the registration: helm 4
    takes over a field of another manager only with its flag."""
    wrote_itself = not (previous / "templates/secret-authority.yaml").exists()
    return ("--force-conflicts",) if wrote_itself and by == HELMS[0] else ()


def assert_reviews_are_trusted(release: Release) -> None:
    """The registration trusts the CA of the served certificate, and the old right is gone."""
    (bundle,) = release.bundles()
    authorities = x509.load_pem_x509_certificates(base64.b64decode(bundle))
    served = x509.load_pem_x509_certificate((release.certs / "tls.crt").read_bytes())
    served.verify_directly_issued_by(authorities[0])
    user = f"--as=system:serviceaccount:{NAMESPACE}:{NAME}"
    registration = "mutatingwebhookconfiguration/gpu-scheduler-webhook"
    with pytest.raises(ControlPlaneError):
        release.plane.kubectl("auth", "can-i", "patch", registration, user)


ONE_GPU: Final[dict[str, Any]] = {"limits": {"nvidia.com/gpu": "1"}}


def own_pods(cp: ControlPlane) -> list[Json]:
    """The release's."""
    items: list[Json] = cp.client.get(f"/api/v1/namespaces/{NAMESPACE}/pods")["items"]
    return items


def as_they_run(here: Watcher) -> set[tuple[str, ...]]:
    """The Deployment's pods with nodes and devices, and that none was restarted."""
    wait_until(
        lambda: all(each["status"]["phase"] == "Running" for each in here.pods()),
        what="every pod to run",
    )
    found: set[tuple[str, ...]] = set()
    for each in here.pods():
        if each["metadata"]["name"].startswith("work-"):
            restarts = sum(one["restartCount"] for one in each["status"]["containerStatuses"])
            given = str(each["metadata"]["annotations"])
            found.add((each["metadata"]["uid"], node_of(each), given, str(restarts)))
    assert len(found) == RUNNING
    return found


def change(release: Release, *words: str | Path) -> None:
    """One helm command, and the scheduler that it restarts."""
    release.reach_no_more()
    release.helm(*words)
    release.stop_scheduler()
    release.start_scheduler()
    release.reach()


def place_another(here: Watcher, name: str) -> None:
    """The scheduler of this configuration works."""
    here.create(pod(name, **ONE_GPU))
    here.wait(
        f"{name} to be bound",
        lambda items: any(i["metadata"]["name"] == name and node_of(i) for i in items),
    )


def new_api_kinds(cp: ControlPlane, release: Release, next_one: Path, *words: str) -> None:
    """A stored object is there after each change of its kind, and after the release has gone."""
    kept = cp.client.create(TICKETS, TICKET)["metadata"]["uid"]
    with pytest.raises(ApiError, match="unknown field"):
        cp.client.create(f"{TICKETS}?fieldValidation=Strict", with_reason("too-early"))
    release.reach_no_more()
    release.upgrade("--reuse-values", *words, *WAIT, chart=next_one)
    later = wait_for_field(cp)
    assert later["spec"]["reason"] == "new"
    release.helm("rollback", NAME, *WAIT)
    release.helm("uninstall", NAME, "--wait")
    assert {each for each in everything(cp) if "gpu-scheduler" in each} >= API_KINDS
    assert not own_deployments(cp)
    release.install(*WAIT)
    tickets = stored(cp)
    assert set(tickets) == {"kept", "later"}
    assert tickets["kept"]["metadata"]["uid"] == kept
    assert tickets["kept"]["spec"] == TICKET["spec"]


def with_reason(name: str) -> Json:
    """A ticket with the field of the later version."""
    spec = {**TICKET["spec"], "reason": "new"}  # type: ignore[dict-item] # JSON
    return {**TICKET, "metadata": {"name": name}, "spec": spec}


def wait_for_field(cp: ControlPlane) -> Json:
    """Create a ticket with the new field, once the API server has learned of it."""
    made: list[Json] = []

    def is_known() -> bool:
        with contextlib.suppress(ApiError):
            made.append(cp.client.create(f"{TICKETS}?fieldValidation=Strict", with_reason("later")))
        return bool(made)

    wait_until(is_known, what="the new field to be known")
    return made[0]


def stored(cp: ControlPlane) -> dict[str, Json]:
    """Every ticket, once the API server has made itself ready for a changed kind."""
    found: dict[str, Json] = {}

    def is_read() -> bool:
        with contextlib.suppress(ApiError):
            items = cp.client.get(TICKETS)["items"]
            found.update({each["metadata"]["name"]: each for each in items})
        return bool(found)

    wait_until(is_read, what="the tickets to be readable")
    return found


def own_deployments(cp: ControlPlane) -> list[Json]:
    """The release's."""
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
    items: list[Json] = cp.client.get(path)["items"]
    return items


def remove(cp: ControlPlane, release: Release) -> None:
    """The release and its kinds, for the next test."""
    release.helm("uninstall", NAME, "--wait", "--ignore-not-found")
    ours = ("crd", "-l", "app.kubernetes.io/name=gpu-scheduler")
    cp.kubectl("delete", *ours, "--wait=false")
    wait_until_gone(cp, lambda: cp.kubectl("get", *ours, "-o", "name").split())
