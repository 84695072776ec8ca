"""Which pods use their GPUs, by the last sample of the DCGM exporter."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from gpuctl import cluster_access
from gpuctl.cluster_access import Access
from gpuctl.exporter.services import NAMES, PORT, SCRAPE_S, list_exporters, scrape_all
from gpuctl.input_error import NotReached
from scheduler.watch.client import ApiError, Client

#: The utilization of a GPU in percent, and the share of the time in which a MIG instance was used.
UTILIZATION: Final = "DCGM_FI_DEV_GPU_UTIL"
ACTIVE: Final = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
_SERIES: Final = re.compile(rf"^({UTILIZATION}|{ACTIVE})\{{(.*)\}} ([0-9.eE+-]+)", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"\\]*)"')
SHOWN: Final = 3


class Usage(msgspec.Struct, frozen=True):
    """The pods (``namespace/name``) with a series, and whether one of their GPUs is used.

    ``source`` names the exporter; ``silent`` are nodes whose exporter does not answer.
    """

    source: str
    used: dict[str, bool]
    silent: tuple[str, ...] = ()

    def is_idle(self, key: str) -> bool:
        """Whether the exporter has the pod, and no use of its GPUs."""
        return self.used.get(key) is False

    def notes(self, holders: Iterable[str]) -> tuple[str, ...]:
        """What the answer is based on, and which of these pods it leaves out."""
        lines = [f"idle: 0% utilization in the last sample of {self.source}"]
        unknown = sum(key not in self.used for key in holders)
        if unknown:
            lines.append(f"{unknown} more pods have devices without a series of the exporter")
        if self.silent:
            more = f" and {len(self.silent) - SHOWN} more" if len(self.silent) > SHOWN else ""
            lines.append(f"no exporter answers on {', '.join(self.silent[:SHOWN])}{more}")
        return tuple(lines)


def used_pods(texts: Iterable[str]) -> dict[str, bool]:
    """The pods of all series; a pod is in use if one of its GPUs is.

    >>> used_pods(['DCGM_FI_DEV_GPU_UTIL{gpu="0",namespace="team",pod="a"} 0'])
    {'team/a': False}
    """
    found: dict[str, bool] = {}
    for text in texts:
        for _, labels, value in _SERIES.findall(text):
            named = dict(_LABEL.findall(labels))
            # A Prometheus that scraped the exporter has moved its labels.
            pod = named.get("exported_pod") or named.get("pod")
            namespace = named.get("exported_namespace") or named.get("namespace")
            if pod and namespace:
                key = f"{namespace}/{pod}"
                found[key] = found.get(key, False) or _is_positive(value)
    return found


def _is_positive(value: str) -> bool:
    try:
        return float(value) > 0
    except ValueError:
        return False


async def read_usage(access: Access, metrics_url: str) -> Usage:
    """The usage by the exporter at this URL, else by that of the cluster; NotReached is one line
    about what is missing."""
    if metrics_url:
        async with cluster_access.server(metrics_url) as server:
            content = await cluster_access.ask(server, "", {}, SCRAPE_S)
        return Usage(metrics_url, used_pods([content.decode(errors="replace")]))
    async with cluster_access.cluster(access) as client:
        try:
            return await _of_cluster(client)
        except ApiError as error:
            raise NotReached(
                f"--idle needs the rights to list services and pods and to get pods/proxy of the"
                f" DCGM exporter, or --metrics-url URL: {error.message or error}"
            ) from error


async def _of_cluster(client: Client) -> Usage:
    found = await list_exporters(client)
    if not found:
        raise NotReached(
            f"--idle needs a DCGM exporter: no Service has the label app={NAMES[0]} and port"
            f" {PORT}; pass --metrics-url URL"
        )
    used: dict[str, bool] = {}
    silent: list[str] = []
    chosen = [one for one in found if one.namespace == found[0].namespace]
    for exporter in chosen:
        scraped = await scrape_all(client, exporter)
        used |= used_pods(scraped.texts)
        silent += scraped.silent
    names = " and ".join(map(str, chosen))
    return Usage(f"the DCGM exporter {names}", used, tuple(silent))
