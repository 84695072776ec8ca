"""DeviceTaintRules in every version of the API in which a server can serve them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import pytest

from tests.built_programs import fail_if_missing
from tests.controlplane.conftest import HERE, MakeNode
from tests.controlplane.dra.conftest import Devices
from tests.dra import rule_json
from tests.unit.gpuctl.cli import gpuctl
from tools.controlplane import ControlPlane
from tools.controlplane.programs.versions import CONTROL_PLANE_KUBERNETES

#: What switches a version on in these servers.
OF_1_37: Final = {
    "v1": (),
    "v1beta2": (
        "--runtime-config=resource.k8s.io/v1/devicetaintrules=false,"
        "resource.k8s.io/v1beta2/devicetaintrules=true",
    ),
}
OF_1_34: Final = {
    "v1alpha3": (
        "--runtime-config=resource.k8s.io/v1alpha3=true",
        "--feature-gates=DRADeviceTaints=true",
    ),
}
VERSIONS: Final = OF_1_34 if CONTROL_PLANE_KUBERNETES.startswith("1.34.") else OF_1_37


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cp(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, version: str
) -> Iterator[ControlPlane]:
    """With a rule that is there before the scheduler starts."""
    fail_if_missing(request, HERE)
    directory = tmp_path_factory.mktemp(version)
    with ControlPlane.start(directory, api_server_flags=VERSIONS[version]) as plane:
        rule = rule_json("broken", device="gpu-0")
        body = {"metadata": {"name": "broken"}, "spec": rule["spec"]}
        plane.client.create(f"/apis/resource.k8s.io/{version}/devicetaintrules", body)
        yield plane


def test_tainted_device_is_not_given(
    here: Devices, cp: ControlPlane, kwok_node: MakeNode, version: str
) -> None:
    """Until the rule is deleted."""
    here.publish(kwok_node("taint-1"), "gpu-0", "gpu-1")
    here.template("one-gpu")

    here.user("a", template="one-gpu")
    here.wait_bound(1)
    assert here.given("a") == ["taint-1/gpu-1"]
    here.user("b", template="one-gpu")
    here.wait_explained("b", "cannot allocate all claims")
    found = gpuctl("doctor", "--kubeconfig", str(cp.kubeconfig), "-o", "json")
    says = {one["about"]: one["says"] for one in json.loads(found.out)}
    assert says["taint rules"] == f"read from resource.k8s.io/{version}"

    cp.client.delete(f"/apis/resource.k8s.io/{version}/devicetaintrules/broken")

    here.wait_bound(2)
    assert here.given("b") == ["taint-1/gpu-0"]
