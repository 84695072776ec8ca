"""What the doctor reads in the API server's objects and in certificates."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from gpuctl.doctor.api_types import ApiObjects, entry_of, is_gpu_plugin, is_held, node_of, quotas_of
from gpuctl.doctor.certificate import check
from gpuctl.doctor.facts import Certificate, Quota, Taint, Unread
from scheduler.controllers.certificates.issuer import make_certificates
from tests.unit.gpuctl.doctor.wellcluster import GPU, N1, NOW, TARGET, replaced


def test_a_certificate_is_held_against_the_registered_authority() -> None:
    mine = make_certificates([TARGET], ["127.0.0.1"], 30, now=NOW)
    other = make_certificates([TARGET], [], 30, now=NOW)

    right, wrong = check(mine.cert_pem, mine.ca_pem), check(mine.cert_pem, other.ca_pem)

    assert isinstance(right, Certificate)
    assert isinstance(wrong, Certificate)
    assert (right.is_trusted, wrong.is_trusted) == (True, False)
    assert set(right.names) == {TARGET, "127.0.0.1"}
    assert isinstance(check(b"nothing", mine.ca_pem), Unread)
    garbage = check(mine.cert_pem, b"garbage")
    assert isinstance(garbage, Certificate)
    assert not garbage.is_trusted


def test_objects_of_the_api_server_are_read_as_they_are() -> None:
    body = {
        "items": [
            {
                "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.count": "4"}},
                "spec": {"taints": [{"key": GPU, "value": "x", "effect": "NoSchedule"}]},
                "status": {
                    "allocatable": {GPU: "3", "cpu": "64"},
                    "capacity": {GPU: "4", "cpu": "64"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            },
            {
                "metadata": {"name": "q", "namespace": "team"},
                "status": {"hard": {f"requests.{GPU}": "2", "pods": "9"}, "used": {}},
            },
        ]
    }
    node_thing, quota_thing = msgspec.convert(body, ApiObjects).items

    assert node_of(node_thing) == replaced(
        N1, offers={GPU: 3}, taints=(Taint(GPU, "NoSchedule", "x"),)
    )
    assert quotas_of(quota_thing) == [Quota("team", "q", GPU, 0, 2)]
    by_url = {"name": "e", "clientConfig": {"url": "https://127.0.0.1:8443/mutate"}}
    assert entry_of(by_url).target == "127.0.0.1"


@pytest.mark.parametrize(
    ("name", "image", "is_one"),
    [
        pytest.param("nvidia-device-plugin-daemonset", "k8s-device-plugin:1", True, id="nvidias"),
        pytest.param("plugin", "nvidia/k8s-device-plugin:1", True, id="by-its-image"),
        pytest.param("device-plugin", "gpu-scheduler:latest", True, id="the-fake-operators"),
        pytest.param("amd-gpu-device-plugin", "rocm/k8s-device-plugin", False, id="another-vendor"),
        pytest.param("nvidia-device-plugin-mps-control-daemon", "nvidia/x", False, id="mps-daemon"),
        pytest.param("nvidia-dcgm-exporter", "nvidia/dcgm-exporter", False, id="exporter"),
    ],
)
def test_a_device_plugin_for_gpus_is_known_by_its_name_or_image(
    name: str, image: str, is_one: bool
) -> None:
    assert is_gpu_plugin(name, [image]) is is_one


@pytest.mark.parametrize(
    ("holder", "age_s", "held"),
    [
        pytest.param("a", 5, True, id="renewed"),
        pytest.param("a", 3600, False, id="left-behind"),
        pytest.param("", 5, False, id="released"),
    ],
)
def test_only_a_lease_that_is_renewed_is_another_scheduler(
    holder: str, age_s: int, held: bool
) -> None:
    renewed = (NOW - timedelta(seconds=age_s)).isoformat()
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": 15}

    assert is_held(spec, NOW) is held
