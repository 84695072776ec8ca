"""The fields of API objects that the doctor reads, and their conversion into facts. Pure."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from gpuctl.doctor.facts import Aggregated, Entry, Leader, MemoryLimit, Node, Quota, Taint
from scheduler.model import well_known
from scheduler.model.gpu import physical_gpus
from scheduler.model.integer_text import whole
from scheduler.model.lease import Lease
from scheduler.model.limits import NODE_GPUS_MAX
from scheduler.model.quantity import value

NVIDIA: Final = "nvidia.com/"
QUOTA_PREFIX: Final = "requests."
#: The name of the fake GPU operator's own device plugin.
OURS: Final = "device-plugin"
#: The container's name in the chart.
SCHEDULER_CONTAINER: Final = "scheduler"
#: A Lease that was not renewed for this many of its durations is abandoned.
ABANDONED_DURATIONS: Final = 2


class Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ApiObject(msgspec.Struct, frozen=True):
    """Any object; ``spec``, ``status`` and ``data`` are not decoded further."""

    metadata: Meta = Meta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    data: dict[str, str] = {}
    webhooks: list[dict[str, Any]] = []
    endpoints: list[dict[str, Any]] | None = None


def node_of(node: ApiObject) -> Node:
    """A node's GPUs by its labels and by its allocatable."""
    count = node.metadata.labels.get(well_known.GPU_COUNT, "")
    conditions = node.status.get("conditions") or []
    return Node(
        name=node.metadata.name,
        gpus=whole(count, NODE_GPUS_MAX) or 0,
        offers=_gpus(node.status.get("allocatable")),
        capacity=_gpus(node.status.get("capacity")),
        taints=tuple(map(taint_of, node.spec.get("taints") or ())),
        is_ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
        is_cordoned=bool(node.spec.get("unschedulable")),
        failed=tuple(sorted(physical_gpus.failed_gpus(node.metadata.annotations))),
        flaw=physical_gpus.flaw(node.metadata.annotations),
        cloud_label=next(filter(node.metadata.labels.get, well_known.CLOUD_GPU_LABELS), ""),
    )


def taint_of(found: dict[str, str]) -> Taint:
    """A taint, or a toleration with the same fields; one that tolerates every key has no key."""
    return Taint(found.get("key", ""), found.get("effect", ""), found.get("value") or "")


def _gpus(amounts: dict[str, str] | None) -> dict[str, int]:
    return {
        name: value(amount)
        for name, amount in (amounts or {}).items()
        if well_known.is_gpu_device(name)
    }


def quotas_of(quota: ApiObject) -> list[Quota]:
    """The entries of a ResourceQuota for GPUs."""
    hard: dict[str, str] = quota.status.get("hard") or {}
    used: dict[str, str] = quota.status.get("used") or {}
    return [
        Quota(
            quota.metadata.namespace,
            quota.metadata.name,
            key.removeprefix(QUOTA_PREFIX),
            value(used.get(key, "0")),
            value(limit),
        )
        for key, limit in sorted(hard.items())
        if key.removeprefix(QUOTA_PREFIX).startswith(NVIDIA)
    ]


def memory_limit_of(deployment: ApiObject) -> MemoryLimit | None:
    """The memory limit of the scheduler's container; None without one."""
    meta, containers = deployment.metadata, deployment.spec["template"]["spec"]["containers"]
    for container in containers:
        limits = (container.get("resources") or {}).get("limits") or {}
        if container["name"] == SCHEDULER_CONTAINER and limits.get("memory"):
            return MemoryLimit(f"{meta.namespace}/{meta.name}", value(limits["memory"]))
    return None


def leader_of(lease: Lease, read_after: timedelta) -> Leader:
    """The holder of a Lease and the time of its last renewal."""
    spec = lease.spec
    renewed = spec.renew_time
    return Leader(
        spec.holder_identity or "",
        datetime.fromisoformat(renewed) if renewed else None,
        spec.lease_duration_seconds or 0,
        read_after,
    )


def is_held(spec: dict[str, Any], now: datetime) -> bool:
    """Whether a holder renews this Lease; an abandoned Lease is not held."""
    renewed = spec.get("renewTime")
    if not spec.get("holderIdentity") or not renewed:
        return False
    age_s = (now - datetime.fromisoformat(renewed)).total_seconds()
    return bool(age_s <= ABANDONED_DURATIONS * spec.get("leaseDurationSeconds", 0))


def is_gpu_plugin(name: str, images: list[str]) -> bool:
    """Whether a DaemonSet is a device plugin for NVIDIA's resources, and not its MPS daemon."""
    text = " ".join([name, *images])
    is_plugin = "device-plugin" in text and "mps-control" not in name
    return is_plugin and ("nvidia" in text or name == OURS)


def entry_of(webhook: dict[str, Any]) -> Entry:
    """One entry of a MutatingWebhookConfiguration."""
    client = webhook["clientConfig"]
    service = client.get("service")
    if service:
        target = f"{service['name']}.{service['namespace']}.svc"
    else:
        target = urlsplit(client["url"]).hostname or ""
    return Entry(
        name=webhook["name"],
        target=target,
        has_bundle=bool(client.get("caBundle")),
        failure_policy=webhook.get("failurePolicy", "Fail"),
        service=service["name"] if service else "",
    )


def aggregated_of(found: ApiObject) -> Aggregated:
    """An APIService with a Service, without the certificate."""
    service = found.spec["service"]
    conditions = found.status.get("conditions") or []
    available: dict[str, str] = next((one for one in conditions if one["type"] == "Available"), {})
    return Aggregated(
        service=f"{service['namespace']}/{service['name']}",
        target=f"{service['name']}.{service['namespace']}.svc",
        has_bundle=bool(found.spec.get("caBundle")),
        is_available=available.get("status") == "True",
        reason=available.get("reason", ""),
        message=available.get("message", ""),
    )


def ready_of(slices: list[ApiObject]) -> int:
    """The number of ready addresses of a Service; an absent condition means ready."""
    return sum(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for endpoint_slice in slices
        for endpoint in endpoint_slice.endpoints or ()
    )


def decoded(text: str) -> bytes:
    """Base64 as in Secrets and registrations; empty if invalid."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
