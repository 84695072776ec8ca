"""Collects every fact from the API server separately; one failed read affects one fact."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from gpuctl.cluster_access import Access
from gpuctl.doctor import api_types
from gpuctl.doctor.api_types import ApiObject
from gpuctl.doctor.collect_claims import colliding_claims
from gpuctl.doctor.collect_dra import dra, taint_rules
from gpuctl.doctor.collect_pods import pods_seen
from gpuctl.doctor.collect_policies import guards, refuses_forgery, served
from gpuctl.doctor.collect_webhook import aggregated, mutation, registration
from gpuctl.doctor.facts import (
    Clocks,
    Facts,
    Leader,
    MemoryLimit,
    Misnumbered,
    Plugin,
    Quota,
    Right,
    Unread,
)
from gpuctl.doctor.numbers import INDEX_ASSIGNED, Event, Items, misnumbered
from gpuctl.doctor.reader import Reader, known, or_none
from gpuctl.doctor.rights import rights, rights_of_moves, rights_of_preemption
from scheduler.model.integer_text import whole
from scheduler.model.lease import Lease
from scheduler.report.events.device_events import LABEL_WRONG
from scheduler.watch.client import Client

_LEASES: Final = "/apis/coordination.k8s.io/v1"
VERSION_MAX: Final = 999
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class DoctorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The names of the installation; the defaults are the chart's."""

    access: Access
    scheduler: str
    account: str
    webhook: str
    namespace: str


class Collector:
    """Reads the facts with one client."""

    def __init__(self, client: Client, options: DoctorOptions) -> None:
        self._reader = Reader(client)
        self._options = options
        self._namespace = options.access.lease_namespace

    async def facts(self) -> Facts:
        """All facts, read concurrently; Unreachable only if the API server does not answer."""
        clocks = await known(self._clocks())
        now = datetime.now(UTC) if isinstance(clocks, Unread) else clocks.server
        fields: dict[str, Awaitable[Any]] = {
            "version": self._version(),
            "leader": self._leader(time.monotonic()),
            "kinds": self._kinds(),
            "served": served(self._reader),
            "policies": guards(self._reader),
            "refuses_forgery": refuses_forgery(self._reader, self._options.namespace),
            "nodes": self._nodes(),
            "plugins": self._plugins(),
            "dra": dra(self._reader),
            "taint_rules": taint_rules(self._reader),
            "webhook": registration(self._reader, self._options.webhook),
            "aggregated": aggregated(self._reader),
            "mutation": mutation(self._reader, self._options.namespace, self._options.scheduler),
            "missing_rights": self._missing(
                rights(self._namespace, self._options.access.lease_name)
            ),
            "missing_for_moves": self._missing(rights_of_moves(self._namespace)),
            "missing_for_preemption": self._missing(rights_of_preemption()),
            "schedulers": self._schedulers(now),
            "quotas": self._quotas(),
            "excesses": colliding_claims(self._reader),
            "misnumbered": self._misnumbered(),
            "pods": pods_seen(self._reader, self._options.scheduler, now),
            "memory_limit": self._memory_limit(),
        }
        facts = await asyncio.gather(*map(known, fields.values()))
        options = self._options
        return Facts(
            now=now,
            scheduler=options.scheduler,
            account=f"{self._namespace}/{options.account}",
            namespace=self._namespace,
            clocks=clocks,
            **dict(zip(fields, facts, strict=True)),
        )

    async def _clocks(self) -> Clocks:
        date = await self._reader.client.date()
        return Clocks(here=datetime.now(UTC), server=parsedate_to_datetime(date))

    async def _version(self) -> tuple[int, int]:
        found = await self._reader.get("/version", dict[str, Any])
        minor = "".join(char for char in found["minor"] if char in "0123456789")
        return whole(found["major"], VERSION_MAX) or 0, whole(minor, VERSION_MAX) or 0

    async def _leader(self, began: float) -> Leader | None:
        path = f"{_LEASES}/namespaces/{self._namespace}/leases/{self._options.access.lease_name}"
        lease = await or_none(self._reader.get(path, Lease))
        read_after = timedelta(seconds=time.monotonic() - began)
        return api_types.leader_of(lease, read_after) if lease else None

    async def _schedulers(self, now: datetime) -> tuple[str, ...]:
        name = self._options.access.lease_name
        leases = await self._reader.objects(
            f"{_LEASES}/leases", fieldSelector=f"metadata.name={name}"
        )
        return tuple(
            lease.metadata.namespace for lease in leases if api_types.is_held(lease.spec, now)
        )

    async def _kinds(self) -> tuple[str, ...]:
        found = await or_none(self._reader.get("/apis/gpu-scheduler.io/v1alpha1", dict[str, Any]))
        return tuple(kind["name"] for kind in (found or {}).get("resources", ()))

    async def _nodes(self) -> tuple[Any, ...]:
        return tuple(map(api_types.node_of, await self._reader.objects("/api/v1/nodes")))

    async def _plugins(self) -> tuple[Plugin, ...]:
        plugins = []
        for daemon_set in await self._reader.objects("/apis/apps/v1/daemonsets"):
            containers = daemon_set.spec["template"]["spec"]["containers"]
            images = [container["image"] for container in containers]
            if api_types.is_gpu_plugin(daemon_set.metadata.name, images):
                plugins.append(await self._plugin(daemon_set))
        return tuple(plugins)

    async def _plugin(self, daemon_set: ApiObject) -> Plugin:
        labels = daemon_set.spec["selector"].get("matchLabels") or {}
        space = daemon_set.metadata.namespace
        pods = await self._reader.objects(
            f"/api/v1/namespaces/{space}/pods",
            labelSelector=",".join(f"{key}={value}" for key, value in labels.items()),
        )
        nodes = {str(pod.spec.get("nodeName", "")) for pod in pods}
        return Plugin(f"{space}/{daemon_set.metadata.name}", tuple(sorted(nodes)))

    async def _missing(self, options: list[Right]) -> tuple[Right, ...]:
        allowed = await asyncio.gather(*map(self._may, options))
        return tuple(right for right, may in zip(options, allowed, strict=True) if not may)

    async def _may(self, right: Right) -> bool:
        wanted = {field: text for field, text in msgspec.structs.asdict(right).items() if text}
        user = f"system:serviceaccount:{self._namespace}:{self._options.account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{self._namespace}"]
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "groups": groups, "resourceAttributes": wanted},
        }
        content = await self._reader.post(_REVIEWS, body)
        return bool(msgspec.json.decode(content)["status"]["allowed"])

    async def _misnumbered(self) -> tuple[Misnumbered, ...]:
        reader = self._reader
        nodes = await reader.raw_objects("/api/v1/nodes", labelSelector=INDEX_ASSIGNED)
        if not nodes:
            return ()
        chosen = f"spec.schedulerName={self._options.scheduler}"
        pods = await reader.raw_objects("/api/v1/pods", fieldSelector=chosen)
        listed = await reader.raw_objects("/api/v1/events", fieldSelector=f"reason={LABEL_WRONG}")
        events = [msgspec.json.decode(one, type=Event) for one in listed]
        return misnumbered(Items(tuple(nodes)), Items(tuple(pods)), events, self._options.scheduler)

    async def _memory_limit(self) -> MemoryLimit | None:
        found = await self._reader.objects(
            f"/apis/apps/v1/namespaces/{self._namespace}/deployments",
            labelSelector="app.kubernetes.io/name=gpu-scheduler",
        )
        return next(filter(None, map(api_types.memory_limit_of, found)), None)

    async def _quotas(self) -> tuple[Quota, ...]:
        quotas = await self._reader.objects("/api/v1/resourcequotas")
        return tuple(entry for quota in quotas for entry in api_types.quotas_of(quota))
