"""How busy pods are that serve requests (Knative): asked of Prometheus, within a second.

Requests for each second are shown as per cent, as the seed operator does. No answer means idle: a
monitoring system that is down must not hold up the metrics of everything else.
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
#: The seed adds the two, so that an idle pod shows 1; a product keeps the rate as it is.
QUERY: Final = (
    "rate(revision_app_request_count[1m]) * on(pod) group_left(uid) kube_pod_info{{uid={uid}}}"
)

log = structlog.get_logger("fakegpu")


class PrometheusQuery:
    """Remembers the last answers."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._answers: dict[str, int] = {}

    def of(self, uid: str) -> int:
        """The last answer about a pod."""
        return self._answers.get(uid, 0)

    async def ask(self, uids: Iterable[str]) -> None:
        """Ask about these pods, all at once."""
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
            log.debug("no answer about requests", pod=uid, problem=str(error))
            return 0


def _value(answer: Any) -> int:
    return int(float(answer["data"]["result"][0]["value"][1]))


def asked_pods(topology: NodeTopology) -> Iterable[str]:
    """The pods on a node that are measured by their requests, by their uids."""
    for gpu in topology.gpus:
        for status in (gpu.status, *(device.status for device in gpu.instances)):
            for uid, usage in status.pod_gpu_usage_status.items():
                if usage.use_knative_utilization:
                    yield uid
