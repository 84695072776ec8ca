"""One run of the specs on a control plane with KWOK nodes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from scheduler.model import well_known
from tools.controlplane import DEFAULT_COMPONENTS, Client, ControlPlane, FakeNode, add_nodes
from tools.controlplane.commands import SCHEDULER
from tools.product import Product
from tools.upstream_e2e.steering import steer
from tools.upstream_e2e.table import Results, read

NODES: Final = 4
#: The subjects that a scheduler decides; the others are about zones of clouds.
FOCUS: Final = (
    r"\[sig-scheduling\] (SchedulerPredicates|SchedulerPreemption|SchedulerPriorities|LimitRange)"
)
#: Features that are off by default are off on the control plane. The framework of the tests gives
#: this tag to each spec of such a gate, alpha or beta (``WithFeatureGate``).
SKIP: Final = r"\[Feature:OffByDefault\]"
SYSTEM_PODS: Final = "/api/v1/namespaces/kube-system/pods"
KUBE_SCHEDULER: Final = "kube-scheduler"
OURS: Final = "gpu-scheduler"


def run(tests: Path, name: str, directory: Path, *, focus: str, timeout_s: int) -> Results:
    """Run the specs with one of the two schedulers."""
    directory.mkdir(parents=True)
    with _cluster(name, directory) as plane:
        report = directory / "report.json"
        words = [
            *(str(tests), f"--kubeconfig={plane.kubeconfig}", "--provider=skeleton"),
            *(f"--num-nodes={NODES}", "--minStartupPods=0", "--dump-logs-on-failure=false"),
            *(f"--ginkgo.focus={focus}", f"--ginkgo.skip={SKIP}", "--ginkgo.no-color"),
            *(f"--ginkgo.json-report={report}", f"--ginkgo.timeout={timeout_s}s"),
        ]
        with (directory / "e2e.log").open("w") as log:
            print(f"{name}: specs run, output in {log.name}", file=sys.stderr, flush=True)
            subprocess.run(words, stdout=log, stderr=log, check=False, cwd=directory)
        return read(report)


def bind_system_pod(client: Client, node_name: str) -> None:
    """Create the pod that the tests wait for on each node, a minute long before each spec otherwise
    (``test/e2e/framework/node/wait.go`` requiredPerNodePods)."""
    name = f"kube-proxy-fluentd-elasticsearch-node-problem-detector-{node_name}"
    spec: dict[str, Any] = {
        "schedulerName": "bound-by-hand",
        "containers": [{"name": "pause", "image": "registry.example/pause:1"}],
    }
    client.create(SYSTEM_PODS, {"metadata": {"name": name}, "spec": spec})
    target = {"apiVersion": "v1", "kind": "Node", "name": node_name}
    client.create(f"{SYSTEM_PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})


@contextmanager
def _cluster(name: str, directory: Path) -> Iterator[ControlPlane]:
    components = DEFAULT_COMPONENTS | ({SCHEDULER} if name == KUBE_SCHEDULER else frozenset())
    with ControlPlane.start(directory / "cp", components=components) as plane:
        names = [f"node{one}" for one in range(1, NODES + 1)]
        plane.wait_for_service_account("kube-system")
        add_nodes(plane.client, [FakeNode(name=one) for one in names])
        for one in names:
            bind_system_pod(plane.client, one)
        if name == KUBE_SCHEDULER:
            yield plane
            return
        product = Product(plane, directory / "product")
        product.start(webhook=False)
        try:
            steer(plane, well_known.SCHEDULER_NAME)
            yield plane
        finally:
            product.close()
