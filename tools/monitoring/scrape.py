"""The scrape configuration that the Prometheus operator makes of a ServiceMonitor.

Services have no endpoints here, because no kubelet runs; a caller names the address of each pod's
port. Everything else is of the rendered objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

Json = dict[str, Any]


class Pod(NamedTuple):
    """A pod behind the Services: the address of each named port."""

    name: str
    container: Mapping[str, str]
    addresses: Mapping[str, str]


def scrape_configs(
    monitor: Json, objects: Iterable[Json], pods: Iterable[Pod], **more: str
) -> list[Json]:
    """One configuration for each endpoint of the monitor; ``more`` are labels of all targets."""
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    services = [
        one
        for one in objects
        if one["kind"] == "Service" and wanted <= one["metadata"].get("labels", {}).items()
    ]
    pods = list(pods)
    return [
        _config(monitor, number, endpoint, list(_targets(endpoint, services, pods, more)))
        for number, endpoint in enumerate(monitor["spec"]["endpoints"])
    ]


def _config(monitor: Json, number: int, endpoint: Json, targets: list[Json]) -> Json:
    meta = monitor["metadata"]
    tls = endpoint.get("tlsConfig", {})
    return {
        "job_name": f"serviceMonitor/{meta['namespace']}/{meta['name']}/{number}",
        "metrics_path": endpoint.get("path", "/metrics"),
        "scheme": endpoint.get("scheme", "http"),
        "honor_labels": endpoint.get("honorLabels", False),
        "tls_config": {"insecure_skip_verify": bool(tls.get("insecureSkipVerify"))},
        "static_configs": targets,
    }


def _targets(
    endpoint: Json, services: list[Json], pods: list[Pod], more: Mapping[str, str]
) -> Iterator[Json]:
    """The operator's labels: the job is the Service's name, where the monitor has no jobLabel."""
    port = endpoint["port"]
    for service in services:
        if port not in {one["name"] for one in service["spec"]["ports"]}:
            continue
        for pod in pods:
            if port in pod.addresses:
                labels = {
                    "job": service["metadata"]["name"],
                    "namespace": service["metadata"]["namespace"],
                    "service": service["metadata"]["name"],
                    "pod": pod.name,
                    "container": pod.container[port],
                    "endpoint": port,
                    **more,
                }
                yield {"targets": [pod.addresses[port]], "labels": labels}
