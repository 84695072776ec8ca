"""A cluster with two replicas, fake GPUs, and a Prometheus that scrapes all of it.

The scrape configuration is what the Prometheus operator makes of the chart's ServiceMonitor, and
the rules are those of the chart's PrometheusRule, with shorter times (``tools/monitoring/rules``).
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.charts.rendering import SCHEDULER, objects, one, settings
from tests.controlplane.proxy import Proxy
from tests.controlplane.replicas import Replicas, leader_of
from tests.controlplane.workloads import Watcher
from tools.controlplane import ControlPlane, FakeNode, add_nodes
from tools.controlplane.ports import LOOPBACK
from tools.fake_operator import FakeOperator
from tools.monitoring.prometheus import Prometheus
from tools.monitoring.rules import shortened
from tools.monitoring.scrape import Pod, scrape_configs
from tools.product import LEASE, MANIFESTS, NAMESPACE, ROOT, Product

Json = dict[str, Any]
#: An hour takes half a minute.
FACTOR: Final = 120
TEAM: Final = "team-a"
CLUSTER: Final = "west-1"
GPU: Final = "nvidia.com/gpu"
BIG: Final = "nvidia.com/mig-2g.20gb"
SMALL: Final = "nvidia.com/mig-1g.10gb"
#: Nodes: one whose GPU fails, one that loses GPUs, one with MIG instances, one that gets them on
#: request, one whose devices a DRA driver publishes, and that of the recorded DCGM exporter.
WHOLE, LOSING, CUT, DYNAMIC, CLAIMED = "whole-1", "whole-2", "cut-1", "dynamic-1", "claimed-1"
RECORDED: Final = "real-1"
POOL: Final = "run.ai/simulated-gpu-node-pool"
_A100: Final = "NVIDIA A100-SXM4-80GB"
_LAYOUT: Final = {"mig-devices": {"2g.20gb": 1, "1g.10gb": 3}}
POOLS: Final[Json] = {
    "migStrategy": "mixed",
    "nodePools": {
        "whole": {"gpus": [{"type": _A100, "count": 4}]},
        "cut": {"gpuProduct": _A100, "gpuCount": 4, "gpuMemory": 81920, "mig": _LAYOUT},
        "dynamic": {"gpus": [{"type": _A100, "count": 1}]},
    },
}
#: Short times, so that a migration does not wait.
CONFIG: Final = {
    "restore": {"minAgeS": 0, "cooldownS": 1, "rescueAfterS": 1},
    "mig": {"partitionTimeoutS": 20},
    # No replica is killed here, and a slow machine is no outage.
    "leaderElection": LEASE,
}
PRICES: Final = {"currency": "EUR", "default": 1.5}
SAMPLE: Final = Path(__file__).with_name("dcgm_exporter.txt")
MONITORING: Final = (
    *("metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true"),
    "metrics.dashboards.enabled=true",
)


class MonitoredCluster:
    """The running parts, as the tests use them."""

    def __init__(
        self, plane: ControlPlane, proxy: Proxy, replicas: list[Product], operator: FakeOperator
    ) -> None:
        self.plane = plane
        self.proxy = proxy
        self.leader, self.standby = leader_of(replicas)
        self.operator = operator
        self.team = Watcher(plane, TEAM)
        self.rendered = objects(SCHEDULER, *settings(*MONITORING))
        self.prometheus: Prometheus
        #: Since when everything is healthy, in seconds since 1970.
        self.calm_at = 0.0

    @property
    def boards(self) -> dict[str, str]:
        """The dashboards of the chart by the names of their files."""
        found: dict[str, str] = one(self.rendered, "ConfigMap", "gpu-scheduler-dashboards")["data"]
        return found

    def groups(self) -> list[Json]:
        """The groups of rules of the chart."""
        groups: list[Json] = one(self.rendered, "PrometheusRule")["spec"]["groups"]
        return groups

    def annotate(self, node: str, **annotations: str | None) -> None:
        """Set annotations of the fake GPU operator on a node."""
        named = {f"gpu-scheduler.io/fake-{key}": value for key, value in annotations.items()}
        self.plane.client.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": named}})

    def wait_offer(self, node: str, resource: str, count: int) -> None:
        """Wait until a node's allocatable has this many of a resource."""
        self.plane.client.wait_for(
            f"/api/v1/nodes/{node}",
            lambda seen: seen["status"]["allocatable"].get(resource) == str(count),
            what=f"{count} {resource} on {node}",
        )


@contextmanager
def monitored(plane: ControlPlane, directory: Path) -> Iterator[MonitoredCluster]:
    """Start everything; one replica reaches the API server through a proxy."""
    files = [str(ROOT / "cluster" / name) for name in MANIFESTS]
    plane.kubectl("apply", *(word for file in files for word in ("-f", file)))
    with ExitStack() as parts:
        proxy = parts.enter_context(Proxy(plane, directory / "proxy"))
        replicas = parts.enter_context(Replicas(plane, directory))
        prices = directory / "prices.yaml"
        prices.write_text(json.dumps(PRICES), encoding="utf-8")
        config = CONFIG | {"costs": {"prices": str(prices)}}
        made = [
            replicas.make("one", config=config, scope="ours", kubeconfig=proxy.kubeconfig()),
            replicas.make("two", config=config, scope="ours"),
        ]
        operator = parts.enter_context(_operator(plane, directory / "fakegpu"))
        cluster = MonitoredCluster(plane, proxy, made, operator)
        cluster.leader.register()
        plane.client.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        plane.wait_for_service_account(TEAM)
        _add_nodes(cluster)
        sample = parts.enter_context(_served(SAMPLE.read_bytes()))
        configs = _scraped(cluster, made, sample)
        rules = shortened(cluster.groups(), FACTOR)
        cluster.prometheus = parts.enter_context(
            Prometheus(directory / "prometheus", configs, rules)
        )
        yield cluster


@contextmanager
def _operator(plane: ControlPlane, directory: Path) -> Iterator[FakeOperator]:
    mig = {"latencyS": 0.2, "partitionsNamespace": NAMESPACE}
    operator = FakeOperator(plane, directory, config={"mig": mig})
    operator.install("fakegpu-migpartitions-rbac.yaml")
    operator.configure(POOLS)
    with operator:
        yield operator


def _add_nodes(cluster: MonitoredCluster) -> None:
    dynamic = {POOL: "dynamic", "gpu-scheduler.io/mig-dynamic": "true"}
    nodes = [
        FakeNode(name=WHOLE, labels={POOL: "whole"}),
        FakeNode(name=LOSING, labels={POOL: "whole"}),
        FakeNode(name=CLAIMED),
        FakeNode(name=CUT, labels={POOL: "cut"}),
        FakeNode(name=DYNAMIC, labels=dynamic),
    ]
    add_nodes(cluster.plane.client, nodes)
    for name in (WHOLE, LOSING):
        cluster.wait_offer(name, GPU, 4)
    cluster.wait_offer(CUT, BIG, 4)


def _scraped(cluster: MonitoredCluster, replicas: list[Product], sample: str) -> list[Json]:
    """What the operator makes of our ServiceMonitor, and of those of two DCGM exporters: one with
    honorLabels, and one without, which is the default of NVIDIA's chart.
    """
    container = {"health": "scheduler", "webhook": "webhook"}
    pods = [
        Pod(
            f"gpu-scheduler-{number}",
            container,
            {
                "health": f"{LOOPBACK}:{replica.health_port}",
                "webhook": f"{LOOPBACK}:{replica.webhook_port}",
            },
        )
        for number, replica in enumerate(replicas)
    ]
    monitor = one(cluster.rendered, "ServiceMonitor")
    return [
        *scrape_configs(monitor, cluster.rendered, pods, cluster=CLUSTER),
        *scrape_configs(
            *_exporter("nvidia-dcgm-exporter-kwok", f"{LOOPBACK}:{cluster.operator.port}", True),
            cluster=CLUSTER,
        ),
        *scrape_configs(*_exporter("nvidia-dcgm-exporter", sample, False), cluster=CLUSTER),
    ]


def _exporter(name: str, address: str, honors: bool) -> tuple[Json, list[Json], list[Pod]]:
    meta = {"name": name, "namespace": "gpu-operator", "labels": {"app": name}}
    endpoint = {"port": "gpu-metrics", "honorLabels": honors}
    monitor = {
        "metadata": meta,
        "spec": {"selector": {"matchLabels": meta["labels"]}, "endpoints": [endpoint]},
    }
    service = {"kind": "Service", "metadata": meta, "spec": {"ports": [{"name": "gpu-metrics"}]}}
    pod = Pod(f"{name}-x7k2p", {"gpu-metrics": name}, {"gpu-metrics": address})
    return monitor, [service], [pod]


@contextmanager
def _served(content: bytes) -> Iterator[str]:
    """The address of a server with one page."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:  # quiet
            pass

    with http.server.ThreadingHTTPServer((LOOPBACK, 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever, name="exporter", daemon=True)
        thread.start()
        yield f"{LOOPBACK}:{server.server_address[1]}"
        server.shutdown()
        thread.join()
