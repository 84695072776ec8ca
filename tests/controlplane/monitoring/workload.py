"""What happens in the cluster: at first nothing unusual, then each cause of an alert."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from scheduler.controllers.certificates.issuer import make_certificates
from scheduler.model import well_known
from tests.controlplane.broken_node import broken_node
from tests.controlplane.dra.conftest import Devices
from tests.controlplane.monitoring.cluster import (
    BIG,
    CLAIMED,
    CUT,
    DYNAMIC,
    GPU,
    LOSING,
    SMALL,
    TEAM,
    WHOLE,
    MonitoredCluster,
)
from tests.controlplane.proxy import fail
from tests.controlplane.workloads import Json, Watcher, controlled, node_of, pod, tier
from tests.dra import FINALIZER
from tools.controlplane import ApiError, wait_until
from tools.controlplane.ports import LOOPBACK
from tools.product import WEBHOOK_NAME

UTILIZATION: Final = "run.ai/simulated-gpu-utilization"
OTHER_TEAM: Final = "team-b"
#: Deployments of two pods each; all of them get the small slice first.
DEGRADED: Final = ("web", "chat", "search")
HOLDERS: Final = 4
POLICY: Final = "refuses"


def near(node: str) -> Json:
    """The spec of a pod for one node."""
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def work_as_usual(cluster: MonitoredCluster) -> None:
    """Pods with GPUs, slices and a requested partition, degraded ones, and a restore."""
    team = cluster.team
    busy = {UTILIZATION: "80-95"}
    team.create(pod("train-0", limits={GPU: "2"}, annotations=busy, **near(WHOLE)))
    team.create(pod("train-1", limits={GPU: "2"}, annotations=busy, **near(LOSING)))
    kept = {well_known.MIG_FALLBACK: "off"}
    team.create(pod("cut-0", limits={SMALL: "1"}, annotations=kept | busy, **near(DYNAMIC)))
    for number in range(HOLDERS):
        holder = f"holder-{number}"
        team.create(pod(holder, limits={BIG: "1"}, annotations=busy, **near(CUT)))
    team.wait_bound(3 + HOLDERS)
    for name in DEGRADED:
        body = controlled(
            *("Deployment", name), replicas=2, limits={BIG: "1"}, annotations=busy, **near(CUT)
        )
        team.create(body)
    team.wait("degraded pods", lambda items: _with(items, SMALL) == 1 + 2 * len(DEGRADED))
    _free_a_slice(cluster, 0)
    team.wait("a restored pod", lambda items: _with(items, BIG) == HOLDERS)


def _with(items: list[Json], resource: str) -> int:
    """How many bound pods have this tier."""
    return sum(tier(item) == {resource: "1"} and bool(node_of(item)) for item in items)


def _free_a_slice(cluster: MonitoredCluster, number: int) -> None:
    path = cluster.team.path("Pod", f"holder-{number}")
    cluster.team.client.delete(path, {"gracePeriodSeconds": 0})


def cause_everything(cluster: MonitoredCluster) -> None:
    """Every cause but those that stop a replica: panels have data of all of it at once."""
    refuse_evictions_and_bindings(cluster)
    pod_waits(cluster)
    gpu_is_held_idle(cluster)
    gpu_fails(cluster)
    node_loses_gpus(cluster)
    claims_collide(cluster)
    watch_breaks(cluster)
    certificate_is_old(cluster)
    bindings_fail(cluster)
    migrations_fail(cluster)
    kubelet_rejects(cluster)


def refuse_evictions_and_bindings(cluster: MonitoredCluster) -> None:
    """An admission policy of the cluster's owner refuses both, in one namespace each."""
    api = "/apis/admissionregistration.k8s.io/v1"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/eviction", "pods/binding"],
    }
    expression = (
        f"request.namespace != (request.subResource == 'eviction' ? '{TEAM}' : '{OTHER_TEAM}')"
    )
    client = cluster.plane.client
    spec: Json = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": expression, "message": "the owner says no"}],
    }
    client.create(
        f"{api}/validatingadmissionpolicies", {"metadata": {"name": POLICY}, "spec": spec}
    )
    binding = {"policyName": POLICY, "validationActions": ["Deny"]}
    client.create(
        f"{api}/validatingadmissionpolicybindings", {"metadata": {"name": POLICY}, "spec": binding}
    )
    wait_until(lambda: _is_refused(cluster), what="the policy to be in force")


def _is_refused(cluster: MonitoredCluster) -> bool:
    body = {"metadata": {"name": "train-0"}, "deleteOptions": {"dryRun": ["All"]}}
    try:
        cluster.team.client.create(f"{cluster.team.pods_path}/train-0/eviction", body)
    except ApiError as error:
        return "the owner says no" in str(error)
    return False


def pod_waits(cluster: MonitoredCluster) -> None:
    """A pod requests more GPUs than any node has free."""
    cluster.team.create(pod("stuck", limits={GPU: "4"}))
    cluster.team.wait_explained("stuck", f"Insufficient {GPU}")


def gpu_is_held_idle(cluster: MonitoredCluster) -> None:
    """A notebook holds a GPU and does not use it; the recorded exporter has the same pod."""
    idle = {UTILIZATION: "0"}
    cluster.team.create(pod("notebook-0", limits={GPU: "1"}, annotations=idle, **near(WHOLE)))


def gpu_fails(cluster: MonitoredCluster) -> None:
    """A GPU has an uncorrectable error."""
    cluster.annotate(WHOLE, failures="3:xid-79")


def node_loses_gpus(cluster: MonitoredCluster) -> None:
    """A device plugin advertises fewer GPUs than the node's pods have."""
    cluster.annotate(LOSING, allocatable=f"{GPU}=1")


def claims_collide(cluster: MonitoredCluster) -> None:
    """Another scheduler allocates a device that a claim of ours has."""
    team = Devices(cluster.plane, TEAM)
    team.publish(CLAIMED, "gpu-0", "gpu-1")
    team.claim("first")
    team.user("claimer", "first")
    first = team.wait_claim("first", "allocated", lambda seen: "allocation" in seen["status"])
    team.claim("late")
    team.client.patch(team.claim_path("late"), {"metadata": {"finalizers": [FINALIZER]}})
    status = {"status": {"allocation": first["status"]["allocation"]}}
    team.client.patch(f"{team.claim_path('late')}/status", status)


def watch_breaks(cluster: MonitoredCluster) -> None:
    """The API server refuses one kind after an update of the roles, and the open watch ends."""
    for call in ("list resourcequotas", "watch resourcequotas"):
        cluster.proxy.always(call, fail(403))
    cluster.proxy.cut.add("resourcequotas")
    path = f"/api/v1/namespaces/{TEAM}/resourcequotas"
    quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "500"}}}
    cluster.plane.client.create(path, quota)


def certificate_is_old(cluster: MonitoredCluster) -> None:
    """The renewal failed for weeks: the certificate of one replica has six days left."""
    now = datetime.now(UTC)
    bundle = make_certificates([WEBHOOK_NAME], [LOOPBACK], 6, now=now)
    folder = cluster.standby.directory / "certs"
    (folder / "tls.crt").write_bytes(bundle.cert_pem)
    (folder / "tls.key").write_bytes(bundle.key_pem)


def bindings_fail(cluster: MonitoredCluster) -> None:
    """The API server refuses every Binding of a namespace."""
    client = cluster.plane.client
    client.create("/api/v1/namespaces", {"metadata": {"name": OTHER_TEAM}})
    cluster.plane.wait_for_service_account(OTHER_TEAM)
    other = Watcher(cluster.plane, OTHER_TEAM)
    for number in range(3):
        other.create(pod(f"refused-{number}"))


def migrations_fail(cluster: MonitoredCluster) -> None:
    """Slices are free for degraded pods whose eviction is refused."""
    for number in range(1, HOLDERS):
        _free_a_slice(cluster, number)


def kubelet_rejects(cluster: MonitoredCluster) -> None:
    """A kubelet rejects a pod after its Binding."""
    with broken_node(cluster.plane, "broken-1") as kubelet:
        cluster.team.create(pod("rejected", limits={GPU: "1"}, **near(kubelet.name)))
        item: Any = cluster.plane.client.wait_for(
            cluster.team.path("Pod", "rejected"),
            lambda seen: bool(node_of(seen)),
            what="the pod to be bound",
        )
        kubelet.refuse(item, "UnexpectedAdmissionError", "no device is healthy")
        query = "sum(gpu_scheduler_pods_rejected_by_nodes_total) > 0"
        wait_until(lambda: bool(cluster.prometheus.instant(query)), what="the rejection")


def ask_the_webhook(cluster: MonitoredCluster) -> None:
    """Create a pod with a MIG request, without storing it."""
    path = f"{cluster.team.pods_path}?dryRun=All"
    cluster.plane.client.create(path, pod("asked", limits={BIG: "1"}))
