"""The product as an administrator gets it: charts in, pods on the real node out.

How a change of values reaches the cluster is one small class; another means of delivery
brings another one with the same three verbs.
"""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tests.e2e.containers import Json, shell_pod
from tools.charts.copies import CHARTS
from tools.charts.helm import helm
from tools.controlplane import ControlPlane
from tools.controlplane.client import wait_until

NAMESPACE: Final = "gpu-scheduler-system"
NAME: Final = "gpu-scheduler"
CHECK_NAMESPACE: Final = "gpu-scheduler-tests"
CHECK: Final = "gpu-test-gpu-scheduler-check"
#: The seed's node of the check's pods, as a label of the real one.
LOGICAL_NODE: Final = "node1"
#: By index; the first five lines are the seed's.
DEVICES: Final = ("0,1", "2", "0,1,2", "3", "3", "1", "1,2", "0", "2")
REPLICAS: Final = 2
READY_S: Final = 240.0
WEBHOOK_PORT: Final = 8443
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/name={NAME}"
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
SECRET: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}-webhook-tls"
REGISTRATION: Final = (
    f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}-webhook"
)
CHECK_PODS: Final = f"/api/v1/namespaces/{CHECK_NAMESPACE}/pods"


class Release(NamedTuple):
    """One of our charts, as the seed installs it."""

    chart: str
    name: str
    namespace: str


SCHEDULER: Final = Release(NAME, NAME, NAMESPACE)
CHECKER: Final = Release("gpu-scheduler-check", "gpu-test", CHECK_NAMESPACE)


class Delivery(Protocol):
    """How a chart gets to the cluster."""

    def deploy(self, release: Release, values: Json) -> None:
        """Ask for the chart with these values over its defaults; what follows is waited for."""

    def roll_back(self, release: Release) -> None:
        """Ask for what was there before the last change."""

    def withdraw(self, release: Release) -> None:
        """Ask for nothing of it any more."""


class ByHelm:
    """As in the README."""

    def __init__(self, plane: ControlPlane, directory: Path) -> None:
        self._kubeconfig = plane.kubeconfig
        self._values = directory / "values.json"

    def deploy(self, release: Release, values: Json) -> None:
        """Install or upgrade."""
        self._values.write_text(json.dumps(values))
        words = ("upgrade", "--install", release.name, CHARTS / release.chart)
        self._helm(release, *words, "--create-namespace", "--values", self._values)

    def roll_back(self, release: Release) -> None:
        """To the revision before."""
        self._helm(release, "rollback", release.name)

    def withdraw(self, release: Release) -> None:
        """Uninstall."""
        self._helm(release, "uninstall", release.name, "--wait", "--ignore-not-found")

    def _helm(self, release: Release, *words: str | Path) -> None:
        helm(*words, "--namespace", release.namespace, kubeconfig=self._kubeconfig)


class Scheduler:
    """The scheduler's pods, seen through the API server and the kubelet."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def pods(self) -> list[Json]:
        """Those that are not about to go."""
        found = self.plane.client.get(PODS)["items"]
        return [one for one in found if "deletionTimestamp" not in one["metadata"]]

    def names(self) -> set[str]:
        """Their names."""
        return {one["metadata"]["name"] for one in self.pods()}

    def wait(self, *, without: Iterable[str] = (), replicas: int = REPLICAS) -> list[Json]:
        """Wait until every replica is ready, and none of those that had to go is left."""
        gone = set(without)

        def is_ready() -> bool:
            pods = self.plane.client.get(PODS)["items"]
            names = {one["metadata"]["name"] for one in pods}
            return len(pods) == replicas and not names & gone and all(map(ready, pods))

        wait_until(is_ready, what=f"{replicas} ready schedulers", timeout_s=READY_S)
        return self.pods()

    def leader(self) -> str:
        """The name of the leading pod; empty without a leader."""
        lease = self.plane.client.get(LEASE)
        return str((lease["spec"].get("holderIdentity") or "").partition("_")[0])

    def wait_for_leader(self, *, other_than: str = "") -> str:
        """The pod that leads.

        A pod that was killed holds the Lease until it expires.
        """

        def has_leader() -> bool:
            return self.leader() in self.names() - {other_than}

        wait_until(has_leader, what="a leader", timeout_s=READY_S)
        return self.leader()

    def delete(self, pod: str, *, grace_s: int | None = None) -> None:
        """Delete one of them like kubectl; a grace period of zero kills it."""
        words = "" if grace_s is None else f"?gracePeriodSeconds={grace_s}"
        self.plane.client.delete(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}{words}")

    def log(self, pod: str, container: str) -> str:
        """The log of a container, from the kubelet."""
        return self.plane.kubectl("logs", "-n", NAMESPACE, pod, "-c", container)

    def inside(self, pod: str, container: str, program: str) -> str:
        """What a line of Python prints in a container."""
        words = ("exec", "-n", NAMESPACE, pod, "-c", container, "--", "python", "-c", program)
        return self.plane.kubectl(*words)

    def served(self) -> set[str]:
        """The certificates that the replicas show, each asked at its own address."""
        addresses = [one["status"]["podIP"] for one in self.pods()]
        return {ssl.get_server_certificate((each, WEBHOOK_PORT)) for each in addresses}

    def kept(self) -> str:
        """The certificate of the replicas' Secret; empty if there is none."""
        return base64.b64decode(self.plane.client.get(SECRET)["data"].get("tls.crt", "")).decode()

    def bundles(self) -> set[str]:
        """The CA bundles that the API server trusts."""
        entries = self.plane.client.get(REGISTRATION)["webhooks"]
        return {entry["clientConfig"].get("caBundle", "") for entry in entries}


class Check:
    """The seed's test service, all of it on the real node; ``name`` is its StatefulSet's."""

    def __init__(self, plane: ControlPlane, name: str = CHECK) -> None:
        self.plane = plane
        self._name = name
        self.replicas = 0

    def values(self, replicas: int) -> Json:
        """The chart's values for so many pods; the map has the lines of all that may come."""
        self.replicas = replicas
        lines = [
            {"podIndex": index, "nodeName": LOGICAL_NODE, "gpuDevices": devices}
            for index, devices in enumerate(DEVICES)
        ]
        return {"replicaCount": replicas, "gpuScheduling": {"schedulingMap": lines}}

    @property
    def expected(self) -> dict[int, str]:
        """Which devices each pod gets."""
        return {index: DEVICES[index] for index in range(self.replicas)}

    def pods(self) -> dict[int, Json]:
        """Its pods by their index."""
        found = self.plane.client.get(CHECK_PODS)["items"]
        return {int(one["metadata"]["name"].rpartition("-")[2]): one for one in found}

    def wait(self) -> dict[int, Json]:
        """Wait until every pod is ready; them."""

        def is_ready() -> bool:
            pods = self.pods()
            return pods.keys() == self.expected.keys() and all(map(ready, pods.values()))

        wait_until(is_ready, what=f"{len(self.expected)} ready pods", timeout_s=READY_S)
        return self.pods()

    def containers(self) -> dict[int, tuple[str, str]]:
        """Which container each pod is, by uid and by id: the same until it is recreated."""
        return {
            index: (
                pod["metadata"]["uid"],
                pod["status"]["containerStatuses"][0]["containerID"],
            )
            for index, pod in self.wait().items()
        }

    def lines(self, index: int) -> list[str]:
        """What a pod has printed, from the kubelet."""
        return self.plane.kubectl(
            "logs", "-n", CHECK_NAMESPACE, f"{self._name}-{index}"
        ).splitlines()

    def wait_for_line(self, index: int, node: str) -> None:
        """Wait until a pod has said that it is on a node, with the devices that are expected."""
        line = f"Node: {node}, CUDA_VISIBLE_DEVICES: {self.expected[index]}"
        wait_until(lambda: line in self.lines(index), what=f"{line!r} of pod {index}")

    def wait_for_lines(self, node: str) -> None:
        """The same of every pod."""
        for index in self.expected:
            self.wait_for_line(index, node)

    def is_reviewed(self) -> bool:
        """Whether a mapped pod, created for a trial, gets its environment from the webhook."""
        environment = given(self.plane, CHECK_NAMESPACE, LOGICAL_NODE)
        assert environment == [{"name": "CUDA_VISIBLE_DEVICES", "value": "1"}]
        return True


def given(plane: ControlPlane, namespace: str, node: str) -> list[Json]:
    """The environment that the webhook gives to a pod mapped to GPU 1, created for a trial."""
    told = {"gpu-scheduling-map": f"0={node}:1"}
    probe = shell_pod("probe-0", annotations=told, schedulerName=NAME)
    made = plane.client.create(f"/api/v1/namespaces/{namespace}/pods?dryRun=All", probe)
    found: list[Json] = made["spec"]["containers"][0].get("env", [])
    return found


def ready(pod: Json) -> bool:
    """Whether a pod takes part."""
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
