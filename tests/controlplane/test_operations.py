"""Running the product: its rights, its lists, its health, and what operators type."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from scheduler.model.crd import former_version
from scheduler.watch.informers import DRA, STORAGE
from tests import pod_field_use
from tests.controlplane.audit_log import Moment, audited, now, wait_audited
from tests.controlplane.conftest import MakeNode
from tests.controlplane.rights import decisions, granted_rights, used_rights
from tests.controlplane.workloads import (
    SEED_MAP,
    Watcher,
    controlled,
    fetch,
    node_of,
    pod,
    wait_logged,
)
from tools.controlplane import ApiError, ControlPlane, wait_until
from tools.golden import api_fields
from tools.product import ACCOUNT, ROOT, SHORT_LEASE, Product

OURS = "gpu-scheduler.io"
USER = "system:serviceaccount:" + ACCOUNT.replace("/", ":")

#: `get` on what is watched is what a lost answer of a Binding is resolved with; `bindings`
# itself is only what the documented `auth can-i` asks for; `delete` is for pods that were
# created while the webhook was away (test_ha.py); what is below is for moves (moves)
# and for cuts.
SELDOM = {
    ("", "pods", "get"),
    ("", "pods", "delete"),
    ("", "nodes", "get"),
    ("", "namespaces", "get"),
    ("", "resourcequotas", "get"),
    *(("", kind, "patch") for kind in ("persistentvolumes", "persistentvolumeclaims")),
    *(
        ("resource.k8s.io", "resourceclaims", verb)
        for verb in ("get", "create", "patch", "update", "delete")
    ),
    ("resource.k8s.io", "resourceclaims/status", "patch"),
    ("resource.k8s.io", "devicetaintrules", "watch"),
    ("scheduling.x-k8s.io", "podgroups", "watch"),
    ("scheduling.k8s.io", "podgroups", "watch"),
    ("scheduling.k8s.io", "podgroups/status", "patch"),
    ("jobset.x-k8s.io", "jobsets", "get"),
    ("ray.io", "rayclusters", "get"),
    ("kubeflow.org", "mpijobs", "get"),
    # The API server checks it itself.
    ("resource.k8s.io", "resourceclaims/binding", "patch"),
    ("", "bindings", "create"),
    ("", "pods/eviction", "create"),
    # Named by a policy; no API serves it.
    ("gpu-scheduler.io", "devices", "assign"),
    ("apps", "deployments", "get"),
    ("apps", "replicasets", "get"),
    ("apps", "statefulsets", "get"),
    ("batch", "jobs", "get"),
    ("policy", "poddisruptionbudgets", "list"),
    *((OURS, "podmigrations", verb) for verb in ("create", "delete")),
    (OURS, former_version.MIGRATIONS, "delete"),
    (OURS, "podmigrations/status", "patch"),
    *((OURS, "migpartitions", verb) for verb in ("create", "patch")),
}


@pytest.fixture(scope="module")
def before(cp: ControlPlane) -> Moment:
    """The moment at which this module began; other tests ran before."""
    return now(cp)


@pytest.fixture(scope="module")
def product(
    cp: ControlPlane, before: Moment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Product]:
    """Scheduler and webhook with the roles of ``cluster/rbac*.yaml``."""
    assert before.time, "the moment before the product starts"
    config = {"leaderElection": SHORT_LEASE}
    with Product(cp, tmp_path_factory.mktemp("product"), config=config) as running:
        yield running


@pytest.mark.contract("S2-B14", "S2-B8", "S2-7")
def test_shipped_rights_equal_used_rights_and_no_list_per_pod(
    cp: ControlPlane, product: Product, before: Moment, namespace: str, kwok_node: MakeNode
) -> None:
    """Judged by the API server's audit log after a run with maps, refusals and releases."""
    for number in range(1, 5):
        kwok_node(f"audit{number}", labels={"gpu-node-name": f"node{number}"})
    here = Watcher(cp, namespace)
    here.create(
        controlled("StatefulSet", "s", replicas=6, annotations={"gpu-scheduling-map": SEED_MAP})
    )
    here.wait_bound(5)
    here.wait_explained("s-5", "has no line for index 5")
    here.create(pod("taken-0", annotations={"gpu-scheduling-map": "0=node1:0"}))
    here.wait_explained("taken-0", "held by a pod that does not share it")

    files = ("rbac.yaml", "rbac-migrations.yaml", "rbac-preemption.yaml")
    granted = set().union(*map(granted_rights, files))
    # The Lease is there from the first test that wanted one.
    often = granted - SELDOM
    wait_audited(cp, USER, "every right", lambda every: often <= used_rights(every))
    events = audited(cp, USER, before)

    # Not every 403 is a missing right: a namespace that is being deleted takes no events. Tests
    # before us gave the same account more rights, or fewer, on purpose.
    assert decisions(events) == {"allow"}
    assert used_rights(events) <= granted
    lists = [e["objectRef"]["resource"] for e in events if e["verb"] == "list"]
    starts = product.log("scheduler").count("caches synced")
    # A kind that was registered a moment ago may be listed twice: the first answer is "not yet".
    own = {"podmigrations", "migpartitions"}
    # Kubernetes serves rules from 1.37 on and groups never, and an absent kind is asked for again.
    optional = {"devicetaintrules", "podgroups"}
    counts = {kind: lists.count(kind) for kind in set(lists) - own - optional}
    kinds = (
        *("nodes", "namespaces", "resourcequotas", "poddisruptionbudgets"),
        *(one.kind for one in (*STORAGE, *DRA) if one.kind not in optional),
        # Each new leader looks for those of a former version.
        *(former_version.MIGRATIONS, former_version.PARTITIONS),
    )
    once = dict.fromkeys(kinds, starts)
    # Pods that live, and those that failed before the start; kubelets' events, by reason.
    wanted = {**once, "pods": 2 * starts, "events": 2 * starts}
    assert counts.keys() == wanted.keys()
    # A list that a busy API server refuses is repeated; a list per pod would be seven more.
    assert all(wanted[kind] <= count <= wanted[kind] + 2 for kind, count in counts.items()), counts
    assert all(lists.count(kind) <= starts + 2 for kind in own)


@pytest.mark.contract("S2-29")
def test_documented_rights_check_succeeds(cp: ControlPlane, product: Product) -> None:
    answer = cp.kubectl("auth", "can-i", "create", "bindings", f"--as={USER}")

    assert answer.strip() == "yes"


@pytest.mark.parametrize("schema", ["gpu-scheduler-lease", "gpu-scheduler"])
def test_requests_use_our_flow_schema(cp: ControlPlane, product: Product, schema: str) -> None:
    """Lease renewals wait neither for the scheduler's own requests nor for those of others."""
    counter = rf'apiserver_flowcontrol_dispatched_requests_total{{flow_schema="{schema}",.*}} (\d+)'
    assert product.plane is cp

    wait_until(
        lambda: any(map(int, re.findall(counter, cp.kubectl("get", "--raw", "/metrics")))),
        what=f"requests in {schema}",
    )


@pytest.mark.contract("S2-11", "S2-B12")
def test_health_and_readiness_answer_with_the_seeds_documents(product: Product) -> None:
    def read(path: str) -> Any:
        return json.loads(fetch(product.health_port, path))

    assert read("/health") == {"service": "gpu-scheduler", "status": "healthy"}
    assert read("/ready") == {"service": "gpu-scheduler", "status": "ready"}


@pytest.mark.contract("S2-10")
def test_missing_cluster_and_kubeconfig_end_the_process_clearly(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scheduler"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert "kubeconfig" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.contract("S2-B15")
def test_every_shipped_object_kind_is_known_to_the_api_server(
    cp: ControlPlane, product: Product
) -> None:
    """Server-side dry run: names of kinds and fields are checked by the real thing."""
    foreign = ("kind.x-k8s.io/", "kwok.x-k8s.io/")  # read by programs, not by the API server
    files = [
        path
        for path in (ROOT / "cluster").glob("*.yaml")
        if not any(f"apiVersion: {group}" in path.read_text() for group in foreign)
    ]
    assert len(files) >= 8
    # A dry run makes no namespace, and some of these objects live in the fake GPU operator's.
    cp.kubectl("apply", "-f", str(ROOT / "cluster" / "fakegpu-rbac.yaml"))
    named = [word for path in files for word in ("-f", str(path))]
    cp.kubectl("apply", "--dry-run=server", "--validate=strict", *named)


def test_every_pod_field_of_the_server_schema_is_classified(
    cp: ControlPlane,
) -> None:
    """A field that a newer server adds must be looked at before pods with it are placed."""
    schema = cp.client.get("/openapi/v3/api/v1")

    assert pod_field_use.unclassified(api_fields.fields(schema)) == []


@pytest.mark.smoke
@pytest.mark.contract("S2-B12")
def test_second_replica_takes_over_after_the_first_is_killed(
    cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode, tmp_path: Path
) -> None:
    kwok_node("replicas", labels={"gpu-node-name": "replicas"})
    second = Product(cp, tmp_path / "second", config={"leaderElection": SHORT_LEASE})
    second.directory.mkdir()
    here = Watcher(cp, namespace)
    with closing(second):
        second.start_scheduler()
        here.create(pod("a-0", annotations={"gpu-scheduling-map": "0=replicas:0"}))
        here.wait_bound(1)
        assert "Successfully scheduled" not in second.log("scheduler")
        product.kill("scheduler")
        try:
            here.create(pod("b-1", annotations={"gpu-scheduling-map": "1=replicas:1"}))

            here.wait_bound(2)

            wait_logged(second, "scheduler", "Successfully scheduled pod b-1")
        finally:
            product.start_scheduler()


@pytest.mark.contract("S2-B12")
@pytest.mark.parametrize("newer", [0, 1], ids=["of-this-term", "of-one-not-seen-yet"])
def test_a_binding_of_an_earlier_term_is_refused_by_the_api_server(
    cp: ControlPlane, product: Product, namespace: str, kwok_node: MakeNode, newer: int
) -> None:
    """A paused process that wakes up after a takeover, or a packet that arrives late. One of the
    present term passes, and one that is newer than the API server's own view of the lease."""
    kwok_node("fenced")
    here = Watcher(cp, namespace)
    here.create(pod("stale", scheduler="none"))
    # The test before may have left the election open, and the API server has a view of its own.
    wait_logged(product, "scheduler", "leading")
    lease = cp.client.get(
        "/apis/coordination.k8s.io/v1/namespaces/gpu-scheduler-system/leases/gpu-scheduler"
    )
    term = int(lease["spec"]["leaseTransitions"])
    scheduler = cp.client_for(ACCOUNT)

    def bind(annotations: dict[str, str]) -> None:
        body = {
            "metadata": {"name": "stale", "annotations": annotations},
            "target": {"kind": "Node", "name": "fenced"},
        }
        scheduler.create(f"{here.pods_path}/stale/binding", body)

    def is_known() -> bool:
        with pytest.raises(ApiError) as refused:
            bind({})
        return f"and the lease is in term {term}" in str(refused.value)

    wait_until(is_known, what=f"the API server to know of term {term}")
    with pytest.raises(Exception, match=rf"term {term - 1}, and the lease is in term {term}"):
        bind({"gpu-scheduler.io/epoch": str(term - 1)})
    for unreadable in ({}, {"gpu-scheduler.io/epoch": "many"}, {"gpu-scheduler.io/epoch": "-1"}):
        with pytest.raises(Exception, match=rf"term (none|many|-1), and .* {term}"):
            bind(unreadable)
    assert not node_of(here.client.get(here.path("Pod", "stale")))

    bind({"gpu-scheduler.io/epoch": str(term + newer)})
    here.wait_bound(1)
