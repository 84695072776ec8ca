"""`gpuctl doctor` on a real API server: a healthy product, and each time one part broken."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from scheduler.controllers.certificates.issuer import make_certificates
from scheduler.model.well_known import UNUSABLE_DEVICES
from tests.controlplane.conftest import MakeNode
from tests.controlplane.workloads import Watcher, pod
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import ControlPlane, wait_until
from tools.product import NAMESPACE, ROOT, Product
from webhook.webhook_configuration import NAME

REGISTRATION = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}"
BINDING = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/gpu-scheduler"


@pytest.fixture(autouse=True)
def gpus(product: Product, kwok_node: MakeNode) -> None:
    assert product.is_running("webhook")
    kwok_node("doctored", gpus=4, labels={"nvidia.com/gpu.count": "4"})


def doctor(cp: ControlPlane, namespace: str) -> tuple[int, dict[str, Any]]:
    """Exit status, and the findings by what they are about."""
    result = gpuctl("doctor", "--kubeconfig", str(cp.kubeconfig), "-n", namespace, "-o", "json")
    assert result.err == ""
    return result.status, {one["about"]: one for one in json.loads(result.out)}


#: The begin of what is said of a webhook that works, on a busy machine.
BUSY = "works, in "


def bad(findings: dict[str, Any]) -> dict[str, str]:
    """The levels of what is to be done; how busy the machine is does not matter here."""
    return {
        name: one["level"]
        for name, one in findings.items()
        if one["level"] != "OK" and not one["says"].startswith(BUSY)
    }


def test_healthy_product_has_no_findings(cp: ControlPlane, namespace: str) -> None:
    wait_until(
        lambda: bad(doctor(cp, namespace)[1]) == {},
        what="nothing to be done",
        last=lambda: doctor(cp, namespace),
    )
    status, findings = doctor(cp, namespace)

    assert status == 0
    assert "4 nvidia.com/gpu" in findings["devices"]["says"]

    def table() -> list[str]:
        """The findings' lines, without the advice below them."""
        said = gpuctl("doctor", "--kubeconfig", str(cp.kubeconfig), "-n", namespace).out
        return [line for line in said.splitlines() if not line.startswith(" ")]

    wait_until(
        lambda: all(line.startswith("OK ") or BUSY in line for line in table()),
        what="a table without findings",
        last=table,
    )


def test_a_missing_role_is_named_with_the_rights_that_it_gave(
    cp: ControlPlane, namespace: str
) -> None:
    def is_missed() -> bool:
        return "roles" in bad(doctor(cp, namespace)[1])

    # The authorizer learns of it through a watch of its own.
    try:
        cp.client.delete(BINDING)
        wait_until(is_missed, what="the role to be missed")
        status, findings = doctor(cp, namespace)
    finally:
        cp.kubectl("apply", "-f", str(ROOT / "cluster/rbac.yaml"))
        wait_until(lambda: not is_missed(), what="the role to be there again")

    assert status == 2
    assert bad(findings)["roles"] == "FAIL"
    assert f"{NAMESPACE}/gpu-scheduler may not get nodes" in findings["roles"]["says"]


@pytest.mark.parametrize("name", ["protected-annotations", "bindings", "fencing", "status"])
def test_a_policy_without_its_binding_is_found(cp: ControlPlane, namespace: str, name: str) -> None:
    """It is there and refuses nothing; that a pod is forged then is tried by a dry run."""
    binding = f"gpu-scheduler-{name}"

    def is_missed() -> bool:
        return expected <= set(bad(doctor(cp, namespace)[1]))

    expected = {"policies"} | ({"forgery"} if name == "protected-annotations" else set())
    try:
        cp.kubectl("delete", "validatingadmissionpolicybinding", binding)
        wait_until(is_missed, what="the binding to be missed")
        status, findings = doctor(cp, namespace)
    finally:
        for file in ("admission-policies.yaml", "fencing-policy.yaml"):
            cp.kubectl("apply", "-f", str(ROOT / "cluster" / file))
        wait_until(
            lambda: expected.isdisjoint(bad(doctor(cp, namespace)[1])),
            what="the binding to be there again",
        )

    assert status == 0
    assert name in findings["policies"]["says"]


def test_an_authority_that_did_not_issue_the_certificate_is_found(
    cp: ControlPlane, namespace: str, product: Product
) -> None:
    registered = cp.client.get(REGISTRATION)
    del registered["metadata"]["managedFields"]
    other = make_certificates(["other.example"], [], 1, now=datetime.now(UTC)).ca_pem
    for entry in registered["webhooks"]:
        entry["clientConfig"]["caBundle"] = base64.b64encode(other).decode()
    cp.client.replace(REGISTRATION, registered)
    try:
        wait_until(
            lambda: "mutation" in bad(doctor(cp, namespace)[1]),
            what="the API server to refuse the webhook",
        )
        status, findings = doctor(cp, namespace)
    finally:
        product.register()

    assert status == 2
    assert bad(findings) == {"certificate": "FAIL", "mutation": "FAIL"}


def test_doctor_separates_missing_plugin_and_full_quota_from_health(
    cp: ControlPlane, namespace: str, kwok_node: MakeNode
) -> None:
    kwok_node("mute", labels={"nvidia.com/gpu.count": "8"})
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}}
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    cp.client.create(path, quota)
    cp.client.wait_for(
        f"{path}/none", lambda seen: seen.get("status", {}).get("used"), what="the quota to count"
    )

    status, findings = doctor(cp, namespace)

    assert status == 2
    assert bad(findings) == {"devices": "FAIL", "quotas": "WARN"}
    assert "mute" in findings["devices"]["says"]
    assert f"{namespace}/none (0 of 0 nvidia.com/gpu)" in findings["quotas"]["says"]


def test_doctor_names_the_rights_that_a_limited_user_lacks(cp: ControlPlane) -> None:
    kubeconfig = cp.kubeconfig_for_user("no-rights")

    result = gpuctl("doctor", "--kubeconfig", str(kubeconfig))

    [line] = [each for each in result.out.splitlines() if "no right to" in each]
    assert result.status == 0
    assert line.startswith("WARN  rights       no right to ")
    assert line.endswith(" more")
    assert "forbidden" not in result.out


def test_namespace_that_does_not_exist_is_said_in_one_line(cp: ControlPlane) -> None:
    result = gpuctl("doctor", "--kubeconfig", str(cp.kubeconfig), "-n", "nope")

    assert (result.status, result.out) == (1, "")
    assert result.err == "gpuctl doctor: namespace nope does not exist; -n NS names another\n"


def test_failed_gpus_and_pods_of_other_schedulers_are_found(
    cp: ControlPlane, namespace: str, kwok_node: MakeNode
) -> None:
    kwok_node("broken", gpus=2, annotations={UNUSABLE_DEVICES: "1,x"})
    foreign = pod("foreign", limits={"nvidia.com/gpu": "1"}, schedulerName="volcano")
    here = Watcher(cp, namespace)
    here.create(foreign)
    here.bind("foreign", "doctored", {})
    here.wait_bound(1)
    here.create(pod("big", limits={"nvidia.com/gpu": "64"}))
    here.wait_explained("big", "Insufficient nvidia.com/gpu")

    status, findings = doctor(cp, namespace)

    assert status == 0
    assert findings["gpus"]["level"] == "WARN"
    assert "broken" in findings["gpus"]["says"]
    assert "volcano placed 1 on doctored" in findings["neighbours"]["says"]
    assert "1 waits, oldest " in findings["pods"]["says"]
    assert findings["pods"]["says"].endswith(", 1 INSUFFICIENT")


def test_without_an_api_server_it_says_so_in_one_line() -> None:
    result = gpuctl("doctor", "--kubeconfig", "no-such-file")

    assert (result.status, result.out) == (1, "")
    assert result.err == "gpuctl doctor: no-such-file: no such kubeconfig file\n"
