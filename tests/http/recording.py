"""A running recorder before a server that a test plays."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

from scheduler.report.events.recorder import Recorder
from scheduler.report.metrics import Metrics
from scheduler.watch.client import Client
from tests.builders import pod
from tests.http.fakeapi import FakeApi, reply

EVENT = "POST /apis/events.k8s.io/v1/namespaces/team/events"
PATCH = "PATCH /api/v1/namespaces/team/pods/a/status"
SENTENCE = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
A = pod("a", gpus=1)


def condition(message: str, since: str = "2026-11-27T09:00:00Z") -> dict[str, Any]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": since,
    }


class Recording:
    """A running recorder with a clock that a test advances."""

    def __init__(self, api: FakeApi, client: Client) -> None:
        api.script(EVENT, reply({}, 201))
        api.script(PATCH, reply({}))
        self.api = api
        self.now = 0.0
        self.metrics = Metrics("gpu-scheduler")
        self.idle = asyncio.Event()
        self.idle.set()
        start = datetime(2026, 11, 27, 10, tzinfo=UTC)
        self.recorder = Recorder(
            client,
            "gpu-scheduler",
            "gpu-scheduler-" + "h" * 200,
            lambda: self.now,
            lambda: start + timedelta(seconds=self.now),
            self.metrics,
            self.idle,
            retry_first_s=0.001,
        )

    @property
    def counts(self) -> list[tuple[str, str]]:
        """What was sent, and how that ended, as the metric counts it."""
        [family] = self.metrics.reports.collect()
        return [
            (one.labels["object"], one.labels["result"])
            for one in family.samples
            if one.name.endswith("_total")
            for _ in range(int(one.value))
        ]

    async def sent(self) -> None:
        """Everything recorded so far was dealt with."""
        await self.recorder.drain(10)
        await asyncio.sleep(0)

    def bodies(self, call: str) -> list[dict[str, Any]]:
        method, _, path = call.partition(" ")
        return [s.json for s in self.api.seen if (s.method, s.path) == (method, path)]

    def conditions(self) -> list[dict[str, Any]]:
        return [body["status"]["conditions"][0] for body in self.bodies(PATCH)]
