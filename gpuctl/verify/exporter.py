"""The scrape of the DCGM exporter, which is found by its labels."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

from gpuctl import cluster_access
from gpuctl.input_error import NotReached
from gpuctl.verify.hosts import Raw
from scheduler.watch.client import Client

EXPORTER_PORT: Final = 9400
SCRAPE_S: Final = 10.0
#: The labels of its Service: of NVIDIA's GPU operator, of the exporter's own chart, and of the
#: simulated nodes of charts/fake-gpu-operator.
LABELS: Final = (
    "app=nvidia-dcgm-exporter",
    "app.kubernetes.io/name=dcgm-exporter",
    "app=nvidia-dcgm-exporter-kwok",
)

Listed = Callable[..., Awaitable[list[Raw]]]


class Ambiguous(Exception):
    """Several Services have the labels of one exporter; the text names them."""


async def scrape(client: Client, listed: Listed, url: str) -> str | None:
    """The metrics of the exporter at this URL, or of the labelled Services; None without one."""
    if url:
        return await _from_url(url)
    found: dict[str, None] = {}
    for label in LABELS:
        paths = [
            path
            for one in await listed("/api/v1/services", labelSelector=label)
            if (path := _path(one))
        ]
        if len(paths) > 1:
            raise Ambiguous(", ".join(_named(path) for path in sorted(paths)))
        found.update(dict.fromkeys(paths))
    if not found:
        return None
    texts = [await client.request("GET", path, accept="*/*") for path in found]
    return "\n".join(text.decode(errors="replace") for text in texts)


async def _from_url(url: str) -> str:
    async with cluster_access.server(url) as server:
        with contextlib.suppress(NotReached):
            content = await cluster_access.ask(server, "", {}, SCRAPE_S)
            return content.decode(errors="replace")
    return ""


def _path(service: Raw) -> str:
    """Its proxy in the API server; empty without the port."""
    meta, ports = service["metadata"], service["spec"].get("ports") or ()
    if all(one["port"] != EXPORTER_PORT for one in ports):
        return ""
    name = f"{meta['name']}:{EXPORTER_PORT}"
    return f"/api/v1/namespaces/{meta['namespace']}/services/{name}/proxy/metrics"


def _named(path: str) -> str:
    words = path.split("/")
    return f"{words[4]}/{words[6].partition(':')[0]}"
