"""The API server's objects, as far as the doctor reads them, and what they come to. Pure."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from gpuctl.doctor.facts import Entry, Leader, Node, Quota, Taint
from scheduler.model import well_known
from scheduler.model.integer_text import whole
from scheduler.model.lease import Lease
from scheduler.model.limits import NODE_GPUS_MAX
from scheduler.model.quantity import value

NVIDIA: Final = "nvidia.com/"
QUOTA_PREFIX: Final = "requests."
#: The name of the fake GPU operator's own plugin, as the seed has it.
OURS: Final = "device-plugin"
#: Leases that nobody renewed for so many of their durations are taken for forgotten.
LEFT_BEHIND: Final = 2


class Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class ApiObject(msgspec.Struct, frozen=True):
    """Any object; ``spec``, ``status`` and ``data`` as they came."""

    metadata: Meta = Meta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    data: dict[str, str] = {}
    webhooks: list[dict[str, Any]] = []
    endpoints: list[dict[str, Any]] | None = None


class ApiObjects(msgspec.Struct, frozen=True):
    items: list[ApiObject]


def node_of(thing: ApiObject) -> Node:
    """A node's GPUs, by its labels and by what it advertises."""
    count = thing.metadata.labels.get(well_known.GPU_COUNT, "")
    conditions = thing.status.get("conditions") or []
    return Node(
        name=thing.metadata.name,
        gpus=whole(count, NODE_GPUS_MAX) or 0,
        offers=_gpus(thing.status.get("allocatable")),
        capacity=_gpus(thing.status.get("capacity")),
        taints=tuple(map(taint_of, thing.spec.get("taints") or ())),
        is_ready=any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
        is_cordoned=bool(thing.spec.get("unschedulable")),
    )


def taint_of(found: dict[str, str]) -> Taint:
    """A taint, or a toleration by the same words; one of every key has none."""
    return Taint(found.get("key", ""), found.get("effect", ""), found.get("value") or "")


def _gpus(amounts: dict[str, str] | None) -> dict[str, int]:
    return {
        name: value(amount)
        for name, amount in (amounts or {}).items()
        if well_known.is_gpu_device(name)
    }


def quotas_of(thing: ApiObject) -> list[Quota]:
    """A ResourceQuota's lines about GPUs."""
    hard: dict[str, str] = thing.status.get("hard") or {}
    used: dict[str, str] = thing.status.get("used") or {}
    return [
        Quota(
            thing.metadata.namespace,
            thing.metadata.name,
            key.removeprefix(QUOTA_PREFIX),
            value(used.get(key, "0")),
            value(limit),
        )
        for key, limit in sorted(hard.items())
        if key.removeprefix(QUOTA_PREFIX).startswith(NVIDIA)
    ]


def leader_of(lease: Lease) -> Leader:
    """Who holds a Lease, and since when nobody heard of them."""
    spec = lease.spec
    renewed = spec.renew_time
    return Leader(
        spec.holder_identity or "",
        datetime.fromisoformat(renewed) if renewed else None,
        spec.lease_duration_seconds or 0,
    )


def is_held(spec: dict[str, Any], now: datetime) -> bool:
    """Whether somebody renews this Lease; one that was left behind is held by nobody."""
    renewed = spec.get("renewTime")
    if not spec.get("holderIdentity") or not renewed:
        return False
    age_s = (now - datetime.fromisoformat(renewed)).total_seconds()
    return bool(age_s <= LEFT_BEHIND * spec.get("leaseDurationSeconds", 0))


def is_gpu_plugin(name: str, images: list[str]) -> bool:
    """Whether a DaemonSet is a device plugin for NVIDIA's resources; its MPS daemon is none."""
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


def ready_of(slices: list[ApiObject]) -> int:
    """How many addresses of a Service take connections; no word about it means yes."""
    return sum(
        (endpoint.get("conditions") or {}).get("ready") is not False
        for each in slices
        for endpoint in each.endpoints or ()
    )


def decoded(text: str) -> bytes:
    """Base64 as Secrets and registrations have it; empty where it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
