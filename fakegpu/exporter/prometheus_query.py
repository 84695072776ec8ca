"""The request rates of Knative pods, queried from Prometheus within a second.

Requests per second are shown as per cent, as in the seed operator. Without a response the rate is
0: a failed monitoring system must not block the other metrics.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import aiohttp
import msgspec
import structlog

from fakegpu.topology.node_topology import NodeTopology

TIMEOUT_S: Final = 1.0
#: The seed adds the two, so an idle pod shows 1; the product keeps the rate.
QUERY: Final = (
    "rate(revision_app_request_count[1m]) * on(pod) group_left(uid) kube_pod_info{{uid={uid}}}"
)

log = structlog.get_logger("fakegpu")


class PrometheusQuery:
    """Stores the last responses."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._answers: dict[str, int] = {}

    def of(self, uid: str) -> int:
        """The last rate of a pod."""
        return self._answers.get(uid, 0)

    async def ask(self, uids: Iterable[str]) -> None:
        """Query the rates of these pods at once."""
        wanted = sorted(set(uids))
        if not wanted or not self._url:
            self._answers = {}
            return
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            found = await asyncio.gather(*(self._one(session, uid) for uid in wanted))
        self._answers = dict(zip(wanted, found, strict=True))

    async def _one(self, session: aiohttp.ClientSession, uid: str) -> int:
        query = QUERY.format(uid=msgspec.json.encode(uid).decode())
        try:
            async with session.get(f"{self._url}/api/v1/query", params={"query": query}) as answer:
                return _value(msgspec.json.decode(await answer.read()))
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, LookupError) as error:
            log.debug("request rates not read", pod=uid, problem=str(error))
            return 0


def _value(answer: Any) -> int:
    return int(float(answer["data"]["result"][0]["value"][1]))


def queried_pods(topology: NodeTopology) -> Iterable[str]:
    """The uids of a node's pods that are measured by their requests."""
    for gpu in topology.gpus:
        for status in (gpu.status, *(device.status for device in gpu.instances)):
            for uid, usage in status.pod_gpu_usage_status.items():
                if usage.use_knative_utilization:
                    yield uid
