"""Users with ``view`` read the decisions of their namespace through a real API server.

The APIService and the rights are those of the chart. Its Service is an ExternalName: no pod runs
here, and EndpointSlices may not have loopback addresses.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import itertools
import json
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scheduler.model.decisions.messages import API_SERVICE, GROUP, VERSION
from tests.controlplane.workloads import Watcher, pod, wait_logged
from tests.patience import PATIENCE_S
from tests.unit.gpuctl.cli import gpuctl
from tools.charts.copies import CHARTS
from tools.charts.helm import template
from tools.controlplane import ControlPlane, ControlPlaneError, FakeNode, add_nodes, wait_until
from tools.controlplane.ports import LOOPBACK
from tools.product import NAMESPACE, Product

API: Final = f"/apis/{GROUP}/{VERSION}"
SERVICE: Final = f"/apis/apiregistration.k8s.io/v1/apiservices/{API_SERVICE}"
NAMES: Final = (API_SERVICE, "gpu-scheduler-decisions", "gpu-scheduler-authentication-reader")
GPU: Final = "nvidia.com/gpu"
_checks = itertools.count(1)

Json = dict[str, Any]


@pytest.fixture(scope="module")
def cp(untouched: ControlPlane) -> ControlPlane:
    """One of its own: an APIService without a server fails the discovery of all others."""
    return untouched


@pytest.fixture(scope="module")
def product(cp: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """The product with the aggregated decisions API."""
    with Product(cp, tmp_path_factory.mktemp("product"), aggregated=True) as running:
        apply(cp, running)
        yield running


def apply(cp: ControlPlane, product: Product) -> None:
    """Create what the chart adds, and wait until the API server proxies."""
    words = ("--set", "decisionsApi.aggregated=true")
    rendered = template(
        CHARTS / "gpu-scheduler", release="gpu-scheduler", namespace=NAMESPACE, words=words
    )
    every = [one for one in yaml.safe_load_all(rendered) if one]
    added = [one for one in every if one["metadata"]["name"] in NAMES]
    for one in added:
        if one["kind"] == "APIService":
            one["spec"]["caBundle"] = encoded(cp.ca_certificate)
            one["spec"]["service"]["port"] = product.aggregated_port
    meta = {"name": "gpu-scheduler-webhook", "namespace": NAMESPACE}
    spec = {"type": "ExternalName", "externalName": "localhost"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    cp.kubectl("apply", "-f", "-", input=yaml.safe_dump_all([*added, service]))
    wait_available(cp, "True")
    wait_until(lambda: is_discovered(cp) is True, what="the resource to be discovered")


def is_discovered(cp: ControlPlane) -> bool | None:
    """Whether kubectl finds the resource, None where it fails: discovery follows the APIService's
    condition after a while.
    """
    try:
        return "decisions" in cp.kubectl("api-resources")
    except ControlPlaneError:
        return None


def wait_available(cp: ControlPlane, status: str) -> None:
    """Wait for the APIService's condition; a change makes the API server check at once."""

    def is_seen() -> bool:
        note = {"metadata": {"annotations": {"checked": str(next(_checks))}}}
        cp.client.patch(SERVICE, note)
        conditions = cp.client.get(SERVICE).get("status", {}).get("conditions", ())
        return any((one["type"], one["status"]) == ("Available", status) for one in conditions)

    wait_until(is_seen, what=f"the APIService to have Available={status}")


def encoded(path: Path) -> str:
    """A file's content in base64, as an object's field has it."""
    return base64.b64encode(path.read_bytes()).decode()


@pytest.fixture(scope="module")
def spaces(cp: ControlPlane, product: Product) -> tuple[str, str]:
    """Two namespaces that share a node: ours has one GPU and a pod that waits, theirs the rest."""
    add_nodes(cp.client, [FakeNode(name="shared", gpus=4)])
    for space in ("ours", "theirs"):
        cp.kubectl("create", "namespace", space)
        cp.wait_for_service_account(space)
    ours, theirs = Watcher(cp, "ours"), Watcher(cp, "theirs")
    theirs.create(pod("secret-holder", limits={GPU: "3"}))
    theirs.wait_bound(1)
    ours.create(pod("web", limits={GPU: "1"}))
    ours.wait_bound(1)
    theirs.create(pod("secret-first", limits={GPU: "2"}))
    theirs.wait_explained("secret-first", "Insufficient")
    ours.create(pod("big", limits={GPU: "2"}))
    ours.wait_explained("big", "Insufficient")
    assert product.is_running("webhook")
    return "ours", "theirs"


@pytest.fixture(scope="module")
def tenant(cp: ControlPlane, spaces: tuple[str, str]) -> str:
    """A user with ``view`` in one of them."""
    ours, _ = spaces
    cp.kubectl("create", "rolebinding", "tenant", "-n", ours, "--clusterrole=view", "--user=jane")

    def may() -> bool:
        words = ("auth", "can-i", "get", f"decisions.{GROUP}", "-n", ours, "--as=jane")
        try:
            return cp.kubectl(*words).strip() == "yes"
        except ControlPlaneError:
            return False

    wait_until(may, what="view to have the right")
    return "jane"


def refused(call: Callable[[], object]) -> str:
    """What kubectl says; the call must fail."""
    with pytest.raises(ControlPlaneError) as caught:
        call()
    return str(caught.value)


@pytest.mark.smoke
def test_view_reads_a_decision_of_its_namespace(cp: ControlPlane, tenant: str) -> None:
    path = f"{API}/namespaces/ours/decisions/big"

    text = cp.kubectl("get", "--raw", path, f"--as={tenant}")

    found = json.loads(text)
    assert (found["kind"], found["state"], found["reason"]) == (
        "Decision",
        "Pending",
        "INSUFFICIENT",
    )
    closest = found["answer"]["outlook"]["closest"]
    assert [one["pod"] for one in closest["holders"]] == ["web"]
    assert closest["elsewhere"] == 1
    assert "secret" not in text
    assert found["answer"]["waiting"]["of"] == 2
    assert "before" not in found["answer"]["waiting"]


def test_kubectl_shows_a_table(cp: ControlPlane, tenant: str) -> None:
    text = cp.kubectl("get", "decisions", "-n", "ours", f"--as={tenant}")

    head, *lines = [line.split() for line in text.splitlines()]
    assert head == ["POD", "STATE", "REASON", "NODE", "AGE"]
    assert [line[:3] for line in lines] == [
        ["big", "Pending", "INSUFFICIENT"],
        ["web", "Scheduled", "shared"],
    ]
    assert "secret" not in text
    listed = json.loads(cp.kubectl("get", "decisions", "-n", "ours", "-o", "json"))
    assert [one["metadata"]["name"] for one in listed["items"]] == ["big", "web"]


def test_other_namespaces_are_forbidden(cp: ControlPlane, tenant: str) -> None:
    """By the API server, before it proxies."""
    for path in (
        f"{API}/namespaces/theirs/decisions/secret-first",
        f"{API}/namespaces/theirs/decisions",
        f"{API}/decisions",
    ):
        said = refused(functools.partial(cp.kubectl, "get", "--raw", path, f"--as={tenant}"))
        assert "Forbidden" in said or "forbidden" in said


@pytest.mark.parametrize(
    "path",
    [
        "/namespaces/ours/../theirs/decisions",
        "/namespaces/ours%2F..%2Ftheirs/decisions",
        "/namespaces/ours/decisions/../../theirs/decisions",
        "/namespaces/ours/decisions?fieldSelector=metadata.name%3Dbig",
    ],
)
def test_ambiguous_paths_lead_to_no_other_namespace(
    cp: ControlPlane, tenant: str, path: str
) -> None:
    said = refused(lambda: cp.kubectl("get", "--raw", API + path, f"--as={tenant}"))

    assert "secret" not in said


def test_client_without_the_front_proxy_certificate_fails_in_tls(
    cp: ControlPlane, product: Product, spaces: tuple[str, str]
) -> None:
    """The cluster's authority is another one: its administrator is refused, too."""
    assert spaces
    answers = [
        ask(cp, product.aggregated_port, certificate)
        for certificate in ("front-proxy/client-front-proxy-client", "client-admin", None)
    ]

    assert answers[0].startswith(b"HTTP/1.1 200 ")
    assert answers[1:] == [b"", b""]


def ask(cp: ControlPlane, port: int, certificate: str | None) -> bytes:
    """The answer's first bytes to a request as the API server sends it; none if TLS fails."""
    pki = cp.ca_certificate.parent
    context = ssl.create_default_context(cafile=str(cp.ca_certificate))
    if certificate is not None:
        context.load_cert_chain(pki / f"{certificate}.crt", pki / f"{certificate}.key")
    head = f"GET {API}/namespaces/theirs/decisions HTTP/1.1\r\nHost: x\r\nX-Remote-User: admin\r\n"
    with (
        contextlib.suppress(ssl.SSLError, ConnectionError),
        socket.create_connection((LOOPBACK, port), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname=LOOPBACK) as secured,
    ):
        secured.sendall(f"{head}\r\n".encode())
        return secured.recv(4096)
    return b""


def test_watches_are_refused(cp: ControlPlane, tenant: str) -> None:
    assert tenant
    path = f"{API}/namespaces/ours/decisions?watch=true"

    said = refused(lambda: cp.kubectl("get", "--raw", path))

    assert "cannot be watched" in said


def test_discovery_names_the_resource(cp: ControlPlane, product: Product) -> None:
    """By the API server's aggregated discovery, which falls back to the group's documents."""
    assert product.is_running("webhook")
    text = cp.kubectl("api-resources", f"--api-group={GROUP}", "-o", "wide")

    [_, line] = text.splitlines()
    assert line.split()[:4] == ["decisions", f"{GROUP}/{VERSION}", "true", "Decision"]
    assert "get,list" in line


def test_gpuctl_why_needs_no_right_on_the_leader(cp: ControlPlane, tenant: str) -> None:
    kubeconfig = str(cp.kubeconfig_for_user(tenant))

    result = gpuctl("why", "big", "-n", "ours", "--kubeconfig", kubeconfig)

    assert result.status == 2, result.err
    assert "CAN start later" in result.out
    assert "held by ours/web" in result.out
    assert "and 1 pod of other namespaces" in result.out
    assert "checked  now, by the leader" in result.out
    assert "secret" not in result.out


def test_reader_is_in_the_log(cp: ControlPlane, product: Product, tenant: str) -> None:
    cp.kubectl("get", "--raw", f"{API}/namespaces/ours/decisions/big", f"--as={tenant}")

    wait_logged(product, "webhook", f"user={tenant}")


def line_of_doctor(cp: ControlPlane) -> tuple[str, str]:
    """Level and text of the line about this API."""
    out = gpuctl("doctor", "--kubeconfig", str(cp.kubeconfig), "-n", "ours", "-o", "json").out
    [found] = [one for one in json.loads(out) if one["about"] == "decisions API"]
    return found["level"], found["says"]


def test_gpuctl_doctor_finds_it_available(cp: ControlPlane, tenant: str) -> None:
    assert tenant
    level, says = line_of_doctor(cp)

    assert (level, f"APIService {API_SERVICE} is available" in says) == ("OK", True)


# --- while no replica serves: docs/security.md has this as the price ------------------------------


@pytest.fixture(scope="module")
def outage(cp: ControlPlane, product: Product, spaces: tuple[str, str]) -> Iterator[None]:
    """The webhook has ended; the last tests of this file."""
    cp.kubectl("create", "namespace", "left")
    cp.kubectl("create", "deployment", "web", "--image=web", "-n", spaces[0])
    product.stop("webhook")
    wait_available(cp, "False")
    yield
    if not product.is_running("webhook"):
        product.start_webhook()


@pytest.mark.usefixtures("outage")
def test_outage_leaves_the_group_out_of_kubectls_discovery(cp: ControlPlane) -> None:
    """Without an error: the API server marks the group as stale, and kubectl ignores such ones."""
    wait_until(lambda: is_discovered(cp) is False, what="the group to be stale")
    assert cp.kubectl("get", "all,configmaps", "-n", "ours")
    cp.kubectl("apply", "-f", "-", input=yaml.safe_dump(pod("other", limits={})))

    named = refused(lambda: cp.kubectl("get", "decisions", "-n", "ours"))
    read = refused(lambda: cp.kubectl("get", "--raw", API))

    assert 'the server doesn\'t have a resource type "decisions"' in named
    assert "ServiceUnavailable" in read
    assert GROUP in cp.kubectl("get", "--raw", "/apis")


@pytest.mark.usefixtures("outage")
def test_outage_is_a_failure_of_gpuctl_doctor(cp: ControlPlane) -> None:
    level, says = line_of_doctor(cp)

    assert level == "FAIL"
    assert "is not available" in says
    assert "FailedDiscoveryCheck" in says


@pytest.mark.usefixtures("outage")
def test_outage_stops_no_garbage_collection(cp: ControlPlane) -> None:
    """The controller discovers what it can, and logs the rest."""
    owned = "/apis/apps/v1/namespaces/ours/replicasets"
    cp.client.wait_for(owned, lambda seen: bool(seen["items"]), what="the ReplicaSet")

    cp.kubectl("delete", "deployment", "web", "-n", "ours", "--wait=false")

    cp.client.wait_for(owned, lambda seen: not seen["items"], what="the ReplicaSet to be gone")


@pytest.mark.usefixtures("outage")
def test_outage_keeps_an_empty_namespace_terminating(cp: ControlPlane, product: Product) -> None:
    """Until a replica serves again; the namespace controller tries at least once a minute."""
    path = "/api/v1/namespaces/left"
    cp.client.delete(path)
    cp.client.wait_for(path, is_stuck, what="the namespace to be emptied and kept")

    product.start_webhook()
    wait_available(cp, "True")

    what = "the namespace to be gone"
    cp.client.wait_for(path, lambda seen: seen is None, what=what, timeout_s=3 * PATIENCE_S)


def is_stuck(namespace: Json) -> bool:
    """Whether all objects are gone, and only the discovery keeps the namespace."""
    found = namespace.get("status", {}).get("conditions", ())
    conditions = {one["type"]: one for one in found}
    failure = conditions.get("NamespaceDeletionDiscoveryFailure", {})
    remaining = conditions.get("NamespaceContentRemaining", {})
    stale = f"stale GroupVersion discovery: {GROUP}/{VERSION}"
    return (
        failure.get("status") == "True"
        and stale in failure["message"]
        and remaining.get("status") == "False"
    )
