"""Finds the DCGM exporter by the labels of its Service, and reads its metrics.

Any user may create a Service with these labels, so one in the namespace of a GPU operator comes
first, and the caller says which one it used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from gpuctl.input_error import NotReached
from gpuctl.targets import PAGE
from scheduler.watch import paged_list
from scheduler.watch.client import ApiError, Client, Unreachable

PORT: Final = 9400
SCRAPE_S: Final = 10.0
#: Exporters that are read at the same time.
AT_ONCE: Final = 16
#: Bytes of the metrics of one exporter.
BYTES_MAX: Final = 16 * 1024 * 1024
#: The labels that the Services of NVIDIA's charts and of the fake operator have.
LABELS: Final = ("app", "app.kubernetes.io/name")
NAMES: Final = ("nvidia-dcgm-exporter", "dcgm-exporter", "nvidia-dcgm-exporter-kwok")
OPERATORS: Final = ("gpu-operator", "nvidia-gpu-operator", "gpu-operator-resources")

Raw = dict[str, Any]


class Exporter(msgspec.Struct, frozen=True):
    """A Service of DCGM exporters; ``port`` is that of its pods."""

    namespace: str
    name: str
    selector: dict[str, str]
    port: int | str = PORT

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Scraped(msgspec.Struct, frozen=True):
    """The metrics of every exporter that answered; ``silent`` are the nodes of the others."""

    texts: tuple[str, ...]
    silent: tuple[str, ...] = ()


def exporters(services: Iterable[Raw]) -> list[Exporter]:
    """The exporters, that of a GPU operator's namespace first."""
    found = [one for service in services if (one := _exporter(service)) is not None]

    def order(one: Exporter) -> tuple[bool, int, str, str]:
        rank = OPERATORS.index(one.namespace) if one.namespace in OPERATORS else len(OPERATORS)
        return one.name.endswith("-kwok"), rank, one.namespace, one.name

    return sorted(found, key=order)


def _exporter(service: Raw) -> Exporter | None:
    meta, spec = service["metadata"], service["spec"]
    labels = meta.get("labels") or {}
    if not any(labels.get(label) in NAMES for label in LABELS):
        return None
    ports = [one for one in spec.get("ports") or () if one["port"] == PORT]
    if not ports:
        return None
    target = ports[0].get("targetPort") or PORT
    return Exporter(meta["namespace"], meta["name"], spec.get("selector") or {}, target)


async def list_exporters(client: Client) -> list[Exporter]:
    """The exporters of the cluster; ApiError without the right to list Services."""
    return exporters(await _listed(client, "/api/v1/services"))


async def scrape(client: Client, exporter: Exporter) -> str:
    """The metrics of one of the Service's pods; ApiError without the right."""
    path = f"/api/v1/namespaces/{exporter.namespace}/services/{exporter.name}:{PORT}/proxy/metrics"
    return _text(await client.request("GET", path, accept="*/*", timeout_s=SCRAPE_S))


async def scrape_all(client: Client, exporter: Exporter) -> Scraped:
    """The metrics of all pods of the Service: each exporter has the GPUs of its own node."""
    if not exporter.selector:
        return Scraped((await scrape(client, exporter),))
    labels = ",".join(f"{key}={value}" for key, value in sorted(exporter.selector.items()))
    path = f"/api/v1/namespaces/{exporter.namespace}/pods"
    pods = await _listed(client, path, labelSelector=labels)
    names = {
        one["metadata"]["name"]: one["spec"].get("nodeName", "")
        for one in pods
        if one.get("status", {}).get("phase") == "Running"
    }
    turn = asyncio.Semaphore(AT_ONCE)

    async def read(name: str) -> str | None:
        async with turn:
            url = f"{path}/{name}:{_port(exporter, pods)}/proxy/metrics"
            try:
                return _text(await client.request("GET", url, accept="*/*", timeout_s=SCRAPE_S))
            except Unreachable:
                return None
            except ApiError as error:
                if not error.is_busy:
                    raise
                return None

    texts = await asyncio.gather(*map(read, names))
    silent = [node for node, text in zip(names.values(), texts, strict=True) if text is None]
    return Scraped(tuple(text for text in texts if text is not None), tuple(sorted(silent)))


def _port(exporter: Exporter, pods: Iterable[Raw]) -> int:
    """The number of the port, which a Service may name."""
    if isinstance(exporter.port, int):
        return exporter.port
    for pod in pods:
        for container in pod["spec"].get("containers") or ():
            for one in container.get("ports") or ():
                if one.get("name") == exporter.port:
                    return int(one["containerPort"])
    return PORT


def _text(content: bytes) -> str:
    return content[:BYTES_MAX].decode(errors="replace")


async def _listed(client: Client, path: str, **params: str) -> list[Raw]:
    items: list[Raw] = []
    try:
        async for page in paged_list.pages(client, path, params, PAGE):
            items += [msgspec.json.decode(item) for item in page.items or ()]
    except paged_list.Unreadable as error:
        raise NotReached(f"the API server: {error}") from error
    return items
