"""The fake GPU operator as its chart installs it, and what the seeds' readers do with it.

The chart with its default values, our image, the chart's rights. The manifests are the seeds' own;
images of their names hold a shell and start what the seed's would. Each test goes on where the one
before has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.controlplane.dra_objects import make
from tests.dra import claim_spec
from tests.e2e.agent import GPU, POOL, wait_allocatable
from tests.e2e.claims import cdi_files, claiming, devices, environment, uuids
from tests.e2e.containers import Json, delete, execute, run, shell_pod, wait_for_phase
from tests.e2e.seed_sharing import SEED_SHARING
from tools.charts.copies import CHARTS
from tools.charts.helm import helm
from tools.controlplane import ControlPlane, ControlPlaneError, wait_until
from tools.image import machine
from tools.product import ROOT
from tools.realnode import RealNode

RELEASE: Final = "gpu-operator"
RESERVATIONS: Final = "runai-reservation"
READY_S: Final = 180.0
#: Of the seeds' images what their manifests start: the name, and the entry point.
IMAGES: Final = {
    "nvidia/cuda-vector-add:v0.1": ("/bin/sh", "-c", "/bin/nvidia-smi; exec sleep 3600"),
    "nvidia/cuda:12.4.1-base-ubuntu22.04": (),
    "nvidia/cuda:11.8.0-base-ubuntu22.04": (),
    "pytorch/pytorch:2.0.0-cuda11.8-cudnn8": ("/bin/sleep", "3600"),
}
SEED_001: Final = """
apiVersion: v1
kind: Pod
metadata:
  name: gpu-pod
spec:
  containers:
  - name: gpu-container
    image: nvidia/cuda-vector-add:v0.1
    resources:
      limits:
        nvidia.com/gpu: 1
    env:
      - name: NODE_NAME
        valueFrom:
          fieldRef:
            fieldPath: spec.nodeName
"""
LAB_TOLERATED: Final = """
apiVersion: v1
kind: Pod
metadata:
  name: tolerated-gpu-pod
spec:
  tolerations:
  - key: "dedicated"
    operator: "Equal"
    value: "gpu"
    effect: "NoSchedule"
  nodeSelector:
    nvidia.com/gpu: "true"
  containers:
  - name: training
    image: pytorch/pytorch:2.0.0-cuda11.8-cudnn8
    resources:
      limits:
        nvidia.com/gpu: 1
"""
LAB_SHARED: Final = """
apiVersion: v1
kind: Pod
metadata:
  name: shared-gpu-pod-{number}
spec:
  containers:
  - name: cuda
    image: nvidia/cuda:11.8.0-base-ubuntu22.04
    command: ["sleep", "3600"]
    resources:
      limits:
        nvidia.com/gpu: 1  # Logical GPU
"""


class Release:
    """The chart on the cluster, and its agent's pod."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._plane = plane
        self.directory = directory

    def upgrade(self, *words: str | Path) -> None:
        """The seed's command; returns when all of its pods are ready."""
        helm(
            *("upgrade", "-i", RELEASE, CHARTS / "fake-gpu-operator"),
            *("--namespace", RELEASE, "--create-namespace", *words),
            kubeconfig=self._plane.kubeconfig,
        )
        self.wait_ready()

    def wait_ready(self) -> None:
        """All of its pods are of the newest template, and ready."""
        for workload in ("deployment/fake-gpu-operator", "daemonset/device-plugin"):
            wait = ("rollout", "status", workload, f"--timeout={READY_S:.0f}s")
            self._plane.kubectl(*wait, "-n", RELEASE, timeout_s=READY_S + 10)

    def agents(self) -> list[Json]:
        """By the label that NVIDIA's plugin has."""
        selector = "app.kubernetes.io/name=nvidia-device-plugin"
        path = f"/api/v1/namespaces/{RELEASE}/pods?labelSelector={selector}"
        found: list[Json] = self._plane.client.get(path)["items"]
        return found

    def metrics(self) -> str:
        """What Prometheus gets of the Service."""
        service = f"/api/v1/namespaces/{RELEASE}/services/nvidia-dcgm-exporter:gpu-metrics"
        return self._plane.kubectl("get", "--raw", f"{service}/proxy/metrics")


@pytest.fixture(scope="module")
def release(
    cp: ControlPlane, with_image: RealNode, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    """The image is on the node, the node in no pool, and nothing is installed."""
    node = with_image
    for name, entrypoint in IMAGES.items():
        node.make_image(name, machine.shell(), entrypoint=entrypoint)
    label(cp, node, **{POOL: None})
    yield Release(cp, tmp_path_factory.mktemp("release"))
    label(cp, node, **{POOL: None, "node-pool": None})
    cp.kubectl("annotate", "node", node.name, "run.ai/mig.config-")
    words = ("uninstall", RELEASE, "--namespace", RELEASE, "--wait", "--ignore-not-found")
    helm(*words, kubeconfig=cp.kubeconfig)
    cp.kubectl("delete", "resourceslices", "-l", "app.kubernetes.io/managed-by=fake-gpu-operator")
    cp.kubectl("delete", "namespace", RELEASE, "--ignore-not-found", timeout_s=READY_S)


def label(cp: ControlPlane, node: RealNode, **labels: str | None) -> None:
    """None takes a label away."""
    cp.client.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": labels}})


def apply(cp: ControlPlane, namespace: str, *manifests: str, directory: Path) -> None:
    """``kubectl apply -f``, as the seeds say it."""
    for number, text in enumerate(manifests):
        path = directory / f"manifest-{number}.yaml"
        path.write_text(text)
        cp.kubectl("apply", "-n", namespace, "-f", str(path))


@pytest.mark.contract("S1-1", "S1-31", "S1-56", "S1-86")
def test_seed_001_quick_start(
    cp: ControlPlane, node: RealNode, release: Release, namespace: str
) -> None:
    """Label the node, install the chart, deploy the pod: its log is nvidia-smi's table."""
    cp.kubectl("label", "node", node.name, f"{POOL}=default")
    release.upgrade()
    wait_until(lambda: len(release.agents()) == 1, what="the agent", timeout_s=READY_S)
    wait_allocatable(cp, node, gpu=2)

    apply(cp, namespace, SEED_001, directory=release.directory)
    wait_for_phase(cp, namespace, "gpu-pod", "Running")

    def table() -> str:
        return cp.kubectl("logs", "-n", namespace, "gpu-pod")

    wait_until(lambda: "Processes:" in table(), what="nvidia-smi's table in the log")
    assert "|   0  Tesla-K80             Off | 00000001:00:00.0 Off |" in table()
    assert "/ 11441MiB" in table()
    on_host = node.places.directory / "runai/bin/nvidia-smi"
    assert os.access(on_host, os.X_OK), "where the seed's agent knows it as /runai/bin/nvidia-smi"


@pytest.mark.contract("S1-46", "S4-12")
def test_exporter_service_returns_the_lab_metrics_with_the_pod(
    cp: ControlPlane, release: Release, namespace: str
) -> None:
    """Each of the lab's list, for a pod that runs."""
    apply(cp, namespace, SEED_001, directory=release.directory)
    wait_for_phase(cp, namespace, "gpu-pod", "Running")
    owner = f'container="gpu-container",namespace="{namespace}",pod="gpu-pod"}}'
    wait_until(lambda: owner in release.metrics(), what="the pod's series")
    told = {line.partition("{")[0] for line in release.metrics().splitlines() if owner in line}
    assert told >= {
        "DCGM_FI_DEV_GPU_UTIL",
        "DCGM_FI_DEV_FB_USED",
        "DCGM_FI_DEV_GPU_TEMP",
        "DCGM_FI_DEV_POWER_USAGE",
    }


@pytest.mark.contract("S4-19")
@pytest.mark.usefixtures("release")
def test_lab_troubleshooting_commands_find_output(cp: ControlPlane, node: RealNode) -> None:
    """The plugin's log by its label, and nvidia-smi on the machine itself by kubectl debug."""
    selector = ("-l", "app.kubernetes.io/name=nvidia-device-plugin")
    assert "registered" in cp.kubectl("logs", "-n", RELEASE, *selector, "--tail=-1")
    operator = ("-l", "app.kubernetes.io/name=fake-gpu-operator")
    assert cp.kubectl("logs", "-n", RELEASE, *operator)

    program = "/host/var/lib/runai/bin/nvidia-smi"
    image = "nvidia/cuda:11.8.0-base-ubuntu22.04"
    words = ("debug", f"node/{node.name}", f"--image={image}", "--", program, "-L")
    pod = cp.kubectl(*words).split()[3]
    wait_for_phase(cp, "default", pod, "Succeeded")
    listed = cp.kubectl("logs", pod)
    assert [line.partition(" (")[0] for line in listed.splitlines()] == [
        "GPU 0: Tesla-K80",
        "GPU 1: Tesla-K80",
    ]
    delete(cp, "default", pod)


@pytest.mark.contract("S4-10", "S1-B32")
def test_agent_tolerates_the_lab_taint(
    cp: ControlPlane, node: RealNode, release: Release, namespace: str
) -> None:
    """A deleted agent comes back on the tainted node, and the lab's pod gets a GPU there."""
    (before,) = release.agents()
    try:
        cp.kubectl("taint", "nodes", "-l", "nvidia.com/gpu=true", "dedicated=gpu:NoSchedule")
        cp.kubectl("delete", "pod", "-n", RELEASE, before["metadata"]["name"])
        wait_until(lambda: len(release.agents()) == 1, what="another agent")
        release.wait_ready()
        (after,) = release.agents()
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        wait_allocatable(cp, node, gpu=2)

        apply(cp, namespace, LAB_TOLERATED, directory=release.directory)
        wait_for_phase(cp, namespace, "tolerated-gpu-pod", "Running")
        assert execute(cp, namespace, "tolerated-gpu-pod", "nvidia-smi", "-L").count("UUID") == 1
    finally:
        with contextlib.suppress(ControlPlaneError):  # it may not have got that far
            cp.kubectl("taint", "nodes", node.name, "dedicated-")


@pytest.mark.contract("S1-40", "S1-49", "S1-57", "S1-75")
def test_a_fractional_pod_sees_its_share_of_a_reserved_gpu(
    cp: ControlPlane,
    node: RealNode,
    release: Release,
    namespace: str,
    request: pytest.FixtureRequest,
) -> None:
    """It holds no device; its manifest mounts nvidia-smi, which asks the topology server."""
    release.upgrade("--reuse-values", "--set", "reservation.enabled=true")
    cp.wait_for_service_account(RESERVATIONS)
    group = {"runai-gpu-group": "g"}
    request.addfinalizer(lambda: delete(cp, RESERVATIONS, "reserver"))
    run(cp, RESERVATIONS, shell_pod("reserver", limits={GPU: "1"}, labels=group))
    server = cp.client.get(f"/api/v1/namespaces/{RELEASE}/services/topology-server")
    pod = shell_pod("half", labels=group, annotations={"gpu-fraction": "0.5"})
    (container,) = pod["spec"]["containers"]
    container["env"] = [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "POD_UUID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "RUNAI_NUM_OF_GPUS", "value": "0.5"},
        {"name": "TOPOLOGY_SERVER", "value": f"http://{server['spec']['clusterIP']}"},
    ]
    program = {"path": "/var/lib/runai/bin/nvidia-smi", "type": "File"}
    pod["spec"]["volumes"] = [{"name": "smi", "hostPath": program}]
    container["volumeMounts"] = [{"name": "smi", "mountPath": "/bin/nvidia-smi", "readOnly": True}]
    uid = run(cp, namespace, pod)["metadata"]["uid"]

    words = ("nvidia-smi", "--query-gpu=uuid,memory.total", "--format=csv,noheader,nounits")
    held = execute(cp, RESERVATIONS, "reserver", *words).split(", ")
    wait_until(
        lambda: execute(cp, namespace, "half", *words).split(", ") == [held[0], "5720\n"],
        what=f"half of {held[0]} in the pod",
    )
    on_host = node.places.directory / "runai" / "proc" / "pod" / uid / "metrics" / "gpu"
    used = f"{5720 * 2**20}\n"
    wait_until(
        lambda: [one.read_text() for one in on_host.glob("*/memory.allocated")] == [used],
        what="the files of a pod on a reserved GPU",
        timeout_s=READY_S,
    )


@pytest.mark.contract("S4-2", "S4-3", "S4-16", "S1-B12")
def test_eight_pods_of_the_lab_share_two_gpus(
    cp: ControlPlane, node: RealNode, release: Release, namespace: str
) -> None:
    """``--set-file config.map.config=gpu-config.yaml``; nvidia-smi in the first shows its GPU."""
    file = release.directory / "gpu-config.yaml"
    file.write_text(SEED_SHARING)
    release.upgrade("--reuse-values", "--set-file", f"config.map.config={file}")
    seen = wait_allocatable(cp, node, gpu=8)
    assert seen["metadata"]["labels"]["nvidia.com/gpu.replicas"] == "4"

    pods = [LAB_SHARED.format(number=number) for number in range(1, 9)]
    apply(cp, namespace, *pods, directory=release.directory)
    for number in range(1, 9):
        wait_for_phase(cp, namespace, f"shared-gpu-pod-{number}", "Running")

    lines = [
        execute(cp, namespace, f"shared-gpu-pod-{number}", "nvidia-smi", "-L").strip()
        for number in range(1, 9)
    ]
    assert all(line.startswith("GPU 0: Tesla-K80 (UUID: GPU-") for line in lines)
    assert sorted(lines.count(line) for line in {*lines}) == [4, 4]
    table = execute(cp, namespace, "shared-gpu-pod-1", "nvidia-smi")
    assert "/ 11441MiB" in table
    owners = [f'pod="shared-gpu-pod-{number}"' for number in range(1, 9)]
    wait_until(
        lambda: all(f"{owner}" in release.metrics() for owner in owners),
        what="a series for each pod that shares",
    )


@pytest.mark.contract("S0-15", "S0-3", "S0-11")
def test_the_job_of_seed_000_prints_its_slice(
    cp: ControlPlane, node: RealNode, release: Release, namespace: str
) -> None:
    """Its values file, its script for the layouts, its Job, and ``kubectl logs job/...``."""
    values = ROOT / "config" / "fake-gpu-values.yaml"
    release.upgrade("--reset-values", "--values", values)
    label(cp, node, **{POOL: "medium", "node-pool": "medium"})
    script = ROOT / "scripts" / "configure-mig-profiles.sh"
    path = os.pathsep.join((str(Path(cp.program("kubectl")).parent), os.environ["PATH"]))
    # With a home, or kubectl keeps its cache in the folder where it is started.
    environment = {
        "PATH": path,
        "HOME": str(release.directory),
        "KUBECONFIG": str(cp.kubeconfig),
    }
    subprocess.run([str(script)], check=True, env=environment, stdout=sys.stderr, timeout=180)
    wait_allocatable(cp, node, **{"mig_2g__20gb": 12, "mig_1g__10gb": 4})

    manifest = ROOT / "manifests" / "test-pods" / "test-job.yaml"
    job = yaml.safe_load(manifest.read_text())["metadata"]["name"]
    cp.kubectl("apply", "-n", namespace, "-f", str(manifest))
    words = ("wait", "--for=condition=complete", f"job/{job}", f"--timeout={READY_S:.0f}s")
    cp.kubectl(*words, "-n", namespace, timeout_s=READY_S + 10)

    log = cp.kubectl("logs", "-n", namespace, f"job/{job}")
    assert log.splitlines()[2].startswith("| NVIDIA-SMI ")
    assert "MIG devices:" in log
    assert json.loads(cp.kubectl("get", "job", job, "-n", namespace, "-o", "json"))["status"][
        "succeeded"
    ]


@pytest.mark.contract("S1-66", "S1-67", "S1-68")
def test_two_chart_values_switch_to_dra(
    cp: ControlPlane, node: RealNode, release: Release, namespace: str
) -> None:
    """The agent's pod, without more rights than the chart gives it, publishes the GPUs and prepares
    ``gpu-claim``; the counted GPUs are not offered beside it."""
    cp.kubectl("annotate", "node", node.name, "run.ai/mig.config-")
    label(cp, node, **{POOL: "default", "node-pool": None})
    switches = ("draPlugin.enabled=true", "devicePlugin.enabled=false")
    release.upgrade("--reset-values", *(word for one in switches for word in ("--set", one)))
    wait_until(lambda: len(devices(cp, node)) == 2, what="two devices", timeout_s=READY_S)
    cp.client.wait_for(
        f"/api/v1/nodes/{node.name}",
        lambda seen: seen["status"]["allocatable"].get(GPU, "0") == "0",
        what="the counted GPUs to be gone",
        timeout_s=READY_S,
    )

    make(cp.client, namespace, "resourceclaimtemplates", "gpu-claim", {"spec": claim_spec()})
    run(cp, namespace, claiming("gpu-pod", template="gpu-claim"))

    (uuid,) = uuids(cp, namespace, "gpu-pod")
    there = {one["attributes"]["uuid"]["string"]: one["name"] for one in devices(cp, node)}
    device = there[uuid]
    seen = environment(cp, namespace, "gpu-pod")
    assert seen["GPU_DEVICE_" + device.replace("-", "_")] == device
    assert seen["NODE_NAME"] == node.name
    delete(cp, namespace, "gpu-pod")
    wait_until(lambda: cdi_files(node) == [], what="the claim to be unprepared")
