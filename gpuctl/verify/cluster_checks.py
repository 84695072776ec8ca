"""Checks that only read: nodes, plugin, PriorityClasses, exporter and dashboard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from gpuctl.doctor.finding import Finding, fail, listed, ok, skip, warn
from gpuctl.exporter.idle import UTILIZATION
from gpuctl.exporter.services import NAMES, PORT
from gpuctl.verify.hosts import Host, Raw
from gpuctl.verify.result import PriorityLevel

#: The PriorityClasses that the chart gpu-scheduler creates.
CLASSES: Final = ("gpu-critical", "gpu-high", "gpu-normal", "gpu-low")
PLUGIN_LABEL: Final = "app.kubernetes.io/name"
PLUGIN: Final = "nvidia-device-plugin"
_SERIES: Final = re.compile(r"^(DCGM_\w+)\{", re.MULTILINE)


def check_plugin(hosts: Sequence[Host], pods: Iterable[Raw]) -> Finding:
    """Whether each node with GPUs runs a device plugin."""
    real = [host for host in hosts if not host.is_simulated]
    if not real:
        return skip("plugin", f"{len(hosts)} nodes are simulated: no kubelet runs a plugin there")
    running = {pod["spec"].get("nodeName") for pod in pods if _is_plugin(pod)}
    missing = [host.name for host in real if host.name not in running]
    if not missing:
        return ok("plugin", f"a device plugin runs on {len(real)} of {len(real)} nodes with GPUs")
    told = f"no ready pod of a device plugin on {listed(missing)}"
    if all(host.offered for host in real):
        return warn("plugin", f"{told}; their GPUs are allocatable", f"label it {PLUGIN_LABEL}")
    return fail("plugin", told, "install NVIDIA's GPU operator, or charts/fake-gpu-operator")


def _is_plugin(pod: Raw) -> bool:
    labels = pod["metadata"].get("labels") or {}
    names = (labels.get(PLUGIN_LABEL, ""), labels.get("app", ""))
    conditions = pod.get("status", {}).get("conditions") or ()
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return is_ready and any(name.startswith(PLUGIN) for name in names)


def check_resources(hosts: Sequence[Host]) -> Finding:
    """Whether GPUs are in the capacity of nodes, and allocatable."""
    if not hosts:
        advice = "install a device plugin; without GPUs: charts/fake-gpu-operator"
        return fail("resources", "no node has a GPU resource in its capacity", advice)
    total: Counter[str] = Counter()
    for host in hosts:
        total.update(host.capacity)
    shown = listed([f"{count} {resource}" for resource, count in sorted(total.items())])
    less = [host.name for host in hosts if host.offered != host.capacity]
    if less:
        says = f"{len(hosts)} nodes have {shown}; fewer are allocatable on {listed(less)}"
        return warn("resources", says, "look for failed GPUs: kubectl describe node NODE")
    return ok("resources", f"{len(hosts)} nodes have {shown}")


def priorities(items: Iterable[Raw]) -> tuple[PriorityLevel, ...]:
    """The PriorityClasses of workloads, the highest first."""
    found = (
        PriorityLevel(
            name=one["metadata"]["name"],
            value=one["value"],
            preempts=one.get("preemptionPolicy") != "Never",
            is_default=bool(one.get("globalDefault")),
        )
        for one in items
        if not one["metadata"]["name"].startswith("system-")
    )
    return tuple(sorted(found, key=lambda one: (-one.value, one.name)))


def check_classes(levels: Sequence[PriorityLevel]) -> Finding:
    """Whether the PriorityClasses for GPU workloads exist."""
    names = [level.name for level in levels]
    missing = [name for name in CLASSES if name not in names]
    if missing:
        advice = "helm upgrade ... --set priorityClasses.enabled=true (chart gpu-scheduler)"
        return warn("priorities", f"no PriorityClass {listed(missing)}", advice)
    return ok("priorities", f"PriorityClasses {', '.join(CLASSES)}")


def series(text: str) -> dict[str, int]:
    """Metric -> number of its series in a scrape of a DCGM exporter."""
    return dict(Counter(_SERIES.findall(text)))


def check_metrics(counted: dict[str, int] | None, source: str = "") -> Finding:
    """Whether the DCGM exporter ``source`` reports the utilization of GPUs; None: there is none."""
    if counted is None:
        says = f"no Service of a DCGM exporter (label app={NAMES[0]}) with port {PORT}"
        return skip("metrics", says, "install one, or name it: --metrics-url URL")
    gpus = counted.get(UTILIZATION, 0)
    if not gpus:
        return fail("metrics", f"the exporter {source} has no series {UTILIZATION}", "read its log")
    return ok("metrics", f"the exporter {source} has {UTILIZATION} of {gpus} GPUs or containers")


def check_dashboard(config_maps: Iterable[Raw]) -> Finding:
    """Whether a Grafana dashboard of GPU utilization can be imported."""
    for one in config_maps:
        if any(UTILIZATION in text for text in (one.get("data") or {}).values()):
            meta = one["metadata"]
            return ok("dashboard", f"ConfigMap {meta['namespace']}/{meta['name']} has the panels")
    says = f"no ConfigMap has a dashboard with {UTILIZATION}"
    return warn("dashboard", says, "install the dashboard of charts/fake-gpu-operator")


def check_share(hosts: Sequence[Host]) -> Finding:
    """Whether other schedulers place GPU pods on the same nodes."""
    foreign = sum(host.foreign for host in hosts)
    if not foreign:
        return ok("share", "all pods that hold GPUs are of this scheduler")
    on = [host.name for host in hosts if host.foreign]
    says = f"other schedulers' pods hold GPUs: {foreign} on {listed(on)}"
    return warn("share", says, "value nodePartition of the chart gpu-scheduler")
