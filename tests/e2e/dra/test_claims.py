"""DRA on the real kubelet: claims are allocated by the real kube-scheduler, prepared by our driver,
and seen inside of containers.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from fakegpu.kubelet import HEALTH
from fakegpu.kubelet.health_pb2 import HealthCheckRequest, HealthCheckResponse
from fakegpu.rpc import call
from tests.controlplane.dra_objects import make
from tests.dra import claim_spec
from tests.e2e.agent import FAILURES, GPU
from tests.e2e.claims import (
    DRIVER,
    cdi_files,
    claiming,
    devices,
    environment,
    uuid_of,
    uuids,
)
from tests.e2e.conftest import Pool
from tests.e2e.containers import create, delete, execute, run, shell_pod, wait_for_phase
from tests.e2e.dra.conftest import DraAgent
from tests.patience import PATIENCE_S
from tools.controlplane import ControlPlane, wait_until
from tools.controlplane.ports import LOOPBACK
from tools.realnode import RealNode


@pytest.mark.contract("S1-66", "S1-67")
def test_a_pod_with_the_seeds_claim_sees_its_gpu(
    cp: ControlPlane, plain: RealNode, namespace: str
) -> None:
    """Variables of the CDI kind ``k8s.gpu.nvidia.com/gpu``, with how it is shared; nvidia-smi, and
    in it this GPU only; nothing is left when the pod is gone.
    """
    config = {
        "apiVersion": "gpu.resource.example.com/v1alpha1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
    }
    make(
        cp.client,
        namespace,
        "resourceclaimtemplates",
        "gpu-claim",
        {"spec": claim_spec(config=config)},
    )
    run(cp, namespace, claiming("gpu-pod", template="gpu-claim"))

    (uuid,) = uuids(cp, namespace, "gpu-pod")
    (device,) = (one["name"] for one in devices(cp, plain) if uuid_of(one) == uuid)
    name = "GPU_DEVICE_" + device.replace("-", "_")
    seen = environment(cp, namespace, "gpu-pod")
    assert {key: value for key, value in seen.items() if key.startswith("GPU_DEVICE_")} == {
        name: device,
        f"{name}_SHARING_STRATEGY": "TimeSlicing",
        f"{name}_TIMESLICE_INTERVAL": "Long",
    }
    assert seen["NODE_NAME"] == plain.name
    (file,) = cdi_files(plain)
    written = json.loads(file.read_text())
    assert written["kind"] == "k8s.gpu.nvidia.com/gpu"
    assert written["devices"][0]["name"].endswith(f"-{device}")

    delete(cp, namespace, "gpu-pod")
    wait_until(lambda: cdi_files(plain) == [], what="the claim to be unprepared")


@pytest.mark.contract("S1-41", "S1-78")
def test_two_pods_share_a_claim_and_a_third_gets_another_gpu(
    cp: ControlPlane, plain: RealNode, agent: DraAgent, namespace: str
) -> None:
    """Prepared once for both; the first pod's end takes nothing from the second; metrics carry
    both pods on the GPU of their claim.
    """
    make(cp.client, namespace, "resourceclaims", "shared", claim_spec())
    make(cp.client, namespace, "resourceclaimtemplates", "gpu-claim", {"spec": claim_spec()})
    for name in ("one", "two"):
        create(cp, namespace, claiming(name, claim="shared"))
    create(cp, namespace, claiming("alone", template="gpu-claim"))
    for name in ("one", "two", "alone"):
        wait_for_phase(cp, namespace, name, "Running")

    assert uuids(cp, namespace, "one") == uuids(cp, namespace, "two")
    assert uuids(cp, namespace, "alone") != uuids(cp, namespace, "one")

    def shown(pod: str) -> list[str]:
        owner = f'container="main",namespace="{namespace}",pod="{pod}"}}'
        lines = agent.metrics().splitlines()
        ours = [one for one in lines if one.startswith("DCGM_FI_DEV_FB_USED{") and owner in one]
        return [one.partition('UUID="')[2].partition('"')[0] for one in ours]

    for pod in ("one", "two", "alone"):
        wait_until(
            lambda pod=pod: shown(pod) == uuids(cp, namespace, pod),  # type: ignore[misc] # default
            what=f"{pod} in the metrics",
        )
    delete(cp, namespace, "one")
    assert len(cdi_files(plain)) == 2
    assert uuids(cp, namespace, "two") != []


def test_prepared_claims_survive_agent_kill_and_kubelet_restart(
    cp: ControlPlane, plain: RealNode, agent: DraAgent, namespace: str
) -> None:
    """While no agent is there a pod waits; afterwards it runs, on the GPU that is free; the first
    pod's claim is still known and is unprepared at its end.
    """
    make(cp.client, namespace, "resourceclaimtemplates", "gpu-claim", {"spec": claim_spec()})
    run(cp, namespace, claiming("before", template="gpu-claim"))
    held = uuids(cp, namespace, "before")
    (file,) = cdi_files(plain)

    with agent.killed():
        create(cp, namespace, claiming("meanwhile", template="gpu-claim"))
        file.unlink()
        (file.parent / "k8s.gpu.nvidia.com-gpu_left-by-a-crash.json").write_text("{}")
    wait_for_phase(cp, namespace, "meanwhile", "Running")
    assert file in cdi_files(plain)
    assert len(cdi_files(plain)) == 2
    assert uuids(cp, namespace, "meanwhile") != held

    plain.restart_kubelet(crash=True)
    run(cp, namespace, claiming("after", template="gpu-claim"))
    assert len({*held, *uuids(cp, namespace, "meanwhile"), *uuids(cp, namespace, "after")}) == 3
    for name in ("before", "meanwhile", "after"):
        delete(cp, namespace, name)
    wait_until(lambda: cdi_files(plain) == [], what="all claims to be unprepared")


def test_gpu_partition_lasts_as_long_as_its_claim(
    cp: ControlPlane, node: RealNode, pool: Pool, namespace: str
) -> None:
    """A claim of the class ``mig.nvidia.com``: the pod sees its instance, nothing else was cut."""
    pool("eight")
    wait_until(lambda: len(devices(cp, node)) == 8 * 26, what="parts of the GPUs")
    profile = f"device.attributes['{DRIVER}'].profile == '3g.40gb'"
    spec = claim_spec("mig.nvidia.com", selectors=[{"cel": {"expression": profile}}])
    make(cp.client, namespace, "resourceclaimtemplates", "gpu-claim", {"spec": spec})
    run(cp, namespace, claiming("part", template="gpu-claim"))

    wait_until(
        lambda: "MIG 3g.40gb" in execute(cp, namespace, "part", "nvidia-smi", "-L"),
        what="the instance in nvidia-smi",
    )
    path = f"/api/v1/namespaces/gpu-operator/configmaps/topology-{node.name}"
    assert cp.client.get(path)["data"]["topology.yml"].count("profile: ") == 1
    delete(cp, namespace, "part")
    cp.client.wait_for(
        path, lambda seen: "profile: " not in seen["data"]["topology.yml"], what="it to be whole"
    )


def test_failed_gpu_is_never_allocated(cp: ControlPlane, plain: RealNode, namespace: str) -> None:
    """A plain request for ``nvidia.com/gpu``, which DRA meets, finds the two GPUs that are left."""
    path = f"/api/v1/nodes/{plain.name}"
    cp.client.patch(path, {"metadata": {"annotations": {FAILURES: "0:xid-48"}}})
    wait_until(
        lambda: any("taints" in one for one in devices(cp, plain)), what="the taint of a device"
    )
    usable = {uuid_of(one) for one in devices(cp, plain) if "taints" not in one}

    run(cp, namespace, shell_pod("two", limits={GPU: "2"}))

    assert {*uuids(cp, namespace, "two")} == usable


@pytest.mark.contract("S1-66")
def test_health_service_answers_liveness(agent: DraAgent, plain: RealNode) -> None:
    """gRPC health on its port (51515 by default), service ``liveness``."""
    assert plain.name
    request = HealthCheckRequest(service="liveness")
    address = f"dns:///{LOOPBACK}:{agent.health_port}"
    answer = asyncio.run(
        call(address, f"/{HEALTH}/Check", request, HealthCheckResponse, PATIENCE_S)
    )
    assert answer.status == HealthCheckResponse.SERVING


@pytest.mark.contract("S1-72")
def test_a_pod_of_a_compute_domain_has_a_channel(
    cp: ControlPlane, plain: RealNode, namespace: str
) -> None:
    """``channel-0`` is a device file of nothing in the container; the domain is ready with it."""
    path = f"/apis/resource.nvidia.com/v1beta1/namespaces/{namespace}/computedomains"
    cp.client.create(
        path,
        {
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": {"name": "alone"},
            "spec": {"numNodes": 1, "channel": {"resourceClaimTemplate": {"name": "channel"}}},
        },
    )
    template = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaimtemplates/channel"
    cp.client.wait_for(template, lambda seen: seen is not None, what="the domain's template")

    run(cp, namespace, claiming("member", template="channel"))

    device = "/dev/nvidia-caps-imex-channels/channel0"
    words = ("sh", "-c", f"test -c {device} && echo nothing > {device}")
    assert execute(cp, namespace, "member", *words) == ""
    # Not by the shell: it drops variables with a dash in their names.
    seen = execute(cp, namespace, "member", "env")
    claims = cp.client.get(template.rpartition("/")[0].replace("templates", "s"))["items"]
    uid = claims[0]["metadata"]["uid"]
    assert f"COMPUTE_DOMAIN_DEVICE_channel-0_RESOURCE_CLAIM={uid}" in seen.split()
    cp.client.wait_for(
        f"{path}/alone",
        lambda one: (one.get("status") or {}).get("status") == "Ready",
        what="the domain to be ready",
    )
    delete(cp, namespace, "member")
    file = (
        plain.places.directory / "cdi" / f"k8s.compute-domain.nvidia.com-computedomain_{uid}.json"
    )
    wait_until(lambda: not file.exists(), what="the channel to be unprepared")
