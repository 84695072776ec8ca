"""The lab's cluster: a control plane, simulated nodes, the fake GPU operator, and gpu-scheduler."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tools.controlplane import ControlPlane, FakeNode, add_nodes
from tools.fake_operator import FakeOperator
from tools.product import Product

Json = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
POOL: Final = "run.ai/simulated-gpu-node-pool"
MANIFESTS: Final = Path(__file__).parent / "manifests"
DASHBOARD: Final = (
    Path(__file__).parents[2] / "charts/fake-gpu-operator/files/dashboards/gpu-dashboard.json"
)
NAMESPACE: Final = "default"
WAIT_S: Final = 30.0
#: The lab's three nodes; one with MIG instances for its bonus part.
POOLS: Final[Json] = {
    "nodePools": {
        "a100": {"gpus": [{"type": "a100", "count": 8}]},
        "v100": {"gpus": [{"type": "v100", "count": 4}]},
        "t4": {"gpus": [{"type": "t4", "count": 2}]},
        "mig": {
            "gpuProduct": "NVIDIA-A100-SXM4-80GB",
            "gpuCount": 1,
            "mig": {"mig-devices": {"3g.40gb": 1, "1g.10gb": 4}},
        },
    }
}
NODES: Final = {
    "gpu-node-1": "a100",
    "gpu-node-2": "v100",
    "gpu-node-3": "t4",
    "gpu-node-4": "mig",
    "cpu-node-1": "",
}


class Cluster:
    """The running lab; it stops all its programs at the end."""

    def __init__(self, directory: Path) -> None:
        self._stack = contextlib.ExitStack()
        self._directory = directory

    def __enter__(self) -> Cluster:
        try:
            self._start()
        except BaseException:  # after an interrupt too, no program keeps running
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        plane = ControlPlane.start(self._directory / "cluster")
        self.plane = self._stack.enter_context(plane)
        product = Product(self.plane, self._directory / "product")
        self.product = self._stack.enter_context(product)
        self._operator = FakeOperator(self.plane, self._directory / "fakegpu")
        self._operator.install()
        self._operator.configure(POOLS)
        self._stack.enter_context(self._operator)
        nodes = [
            FakeNode(name=name, labels={POOL: pool} if pool else {}) for name, pool in NODES.items()
        ]
        add_nodes(self.plane.client, nodes)

    def apply(self, manifest: str) -> None:
        """``kubectl apply`` of one of the lab's files."""
        self.plane.kubectl("apply", "-f", str(MANIFESTS / manifest))

    def apply_text(self, text: str) -> None:
        """``kubectl apply`` of a manifest."""
        self.plane.kubectl("apply", "-f", "-", input=text)

    def node(self, name: str, check: Callable[[Json], bool], what: str) -> Json:
        """The node once a condition holds."""
        found: Json = self.plane.client.wait_for(
            f"/api/v1/nodes/{name}", check, what=what, timeout_s=WAIT_S
        )
        return found

    def pod(self, name: str, check: Callable[[Json], bool], what: str) -> Json:
        """The pod once a condition holds."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
        found: Json = self.plane.client.wait_for(path, check, what=what, timeout_s=WAIT_S)
        return found

    def on_node(self, name: str) -> str:
        """The node of a pod, once it has one."""
        pod = self.pod(name, lambda one: bool(one["spec"].get("nodeName")), f"a node for {name}")
        return str(pod["spec"]["nodeName"])

    def pods(self, selector: str, count: int) -> list[Json]:
        """The pods with a label, once so many have a node."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector={selector}"

        def is_complete(seen: Json) -> bool:
            return sum(bool(one["spec"].get("nodeName")) for one in seen["items"]) == count

        what = f"{count} placed pods with {selector}"
        seen = self.plane.client.wait_for(path, is_complete, what=what, timeout_s=WAIT_S)
        return list(seen["items"])

    def delete_workloads(self) -> None:
        """Delete the pods and Deployments of the part before, and wait until they are gone."""
        words = ("delete", "deployments,pods", "--all", "-n", NAMESPACE, "--wait", "--now")
        self.plane.kubectl(*words)

    def events(self, name: str, reason: str) -> Json:
        """The first event of a pod with a reason, once it is there."""
        selector = f"involvedObject.name={name},reason={reason}"
        path = f"/api/v1/namespaces/{NAMESPACE}/events?fieldSelector={selector}"
        what = f"an event {reason} of {name}"
        seen = self.plane.client.wait_for(
            path, lambda one: bool(one["items"]), what=what, timeout_s=WAIT_S
        )
        event: Json = seen["items"][0]
        return event

    def dashboard(self) -> None:
        """The ConfigMap gpu-dashboard, with the file of the chart fake-gpu-operator."""
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "gpu-dashboard", "namespace": "monitoring"},
            "data": {"gpu-dashboard.json": DASHBOARD.read_text(encoding="utf-8")},
        }
        self.plane.kubectl("apply", "-f", "-", input=json.dumps(body))

    @property
    def metrics_url(self) -> str:
        """The metrics of the simulated nodes, as the DCGM exporter's."""
        return f"http://127.0.0.1:{self._operator.port}/metrics"

    def metrics(self) -> str:
        """One scrape."""
        with urllib.request.urlopen(self.metrics_url, timeout=WAIT_S) as answer:  # noqa: S310  # our own URL
            return bytes(answer.read()).decode()
