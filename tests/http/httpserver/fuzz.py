"""Broken requests with broken reviews, seeded: framing, lengths, JSON, and the pod inside."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import random
import time
from collections import Counter
from typing import Any, Final

from scheduler.model import well_known
from tests.http.httpserver.attackers import anything
from tests.unit.webhook.pods import MIG_1G, MIG_2G, container, pod
from tests.unit.webhook.reviews import request

Json = dict[str, Any]

ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 2**63, 2**64, 1e308, -0.0, "", "a", "0", "\u0000", "\u2028"),
    *("\u202e", "é" * 50, "x" * 3000, [], [[]], {}, {"a": None}, ["a"] * 50, "nvidia.com/gpu"),
    *("2g.20gb->1g.10gb", "0=g1:0,1", "1=m1:0\n0=g1:0", "Always", "1e3", "1Ki", "-5", "off"),
    *("gpu-scheduler", "none", "local", "uuid", "index", "preempt", "16Gi", "r-1"),
)
KEYS: Final = (
    *(
        well_known.MAP,
        well_known.RESERVATION,
        well_known.ORIGINAL,
        well_known.DEVICES,
        well_known.FALLBACK,
    ),
    *(f"gpu-scheduler.io/{word}" for word in ("mig-fallback", "memory-floor", "gpu-memory")),
    *(f"gpu-scheduler.io/{word}" for word in ("prefer", "restore", "move", "tier-nodes")),
    "gpu-webhook.k8s.io/fallback",
)
METHODS: Final = (*["POST"] * 12, "GET", "PUT", "\0")
PATHS: Final = (*["/mutate"] * 6, *["/mutate/fallback"] * 3, "/metrics", "/healthz", "//", "/%00")
LINES: Final = (
    *("X: a\nY: b", " folded", "Transfer-Encoding: chunked", "Expect: 100-continue", ":"),
    *("Connection: close", "Content-Length: 3", "X" * 17000, "\x00: 1"),
)
ENDS: Final = (*["\r\n"] * 30, "\n", "\r")


class Fuzzer:
    """One client with its own chance; the status of every answer is kept."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._chance = random.Random(seed)
        self.statuses: Counter[int] = Counter()

    async def run(self, seconds: float) -> None:
        """Connections with one to six requests each, for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                await self._talk()

    async def _talk(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=anything())
        try:
            for _ in range(self._chance.randint(1, 6)):
                writer.write(self._message())
                async with asyncio.timeout(0.25):
                    content = await reader.read(1 << 20)
                if not content:
                    return
                self.statuses[int(content[9:12])] += 1
        finally:
            writer.transport.abort()

    def _message(self) -> bytes:
        chance = self._chance
        content = self._body()
        length = len(content)
        if chance.random() > 0.9:
            length = chance.choice([0, length + chance.randint(1, 9), max(0, length - 50), 2**40])
        lines = [
            f"{chance.choice(METHODS)} {chance.choice(PATHS)} HTTP/1.1",
            *("Host: x", "Content-Type: application/json", f"Content-Length: {length}"),
        ]
        if chance.random() < 0.1:
            lines.insert(chance.randrange(1, len(lines)), chance.choice(LINES))
        end = chance.choice(ENDS)
        return (end.join(lines) + end * 2).encode("latin-1") + content

    def _body(self) -> bytes:
        chance = self._chance
        review: Json = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": copy.deepcopy(request(object=self._pod())),
        }
        for _ in range(chance.randint(0, 4)):
            self._mutate(review)
        content = json.dumps(review, ensure_ascii=chance.random() < 0.5).encode("utf-8")
        fate = chance.random()
        if fate < 0.15:
            broken = bytearray(content)
            for _ in range(chance.randint(1, 4)):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            return bytes(broken)
        return content[: chance.randrange(len(content))] if fate < 0.2 else content

    def _pod(self) -> Json:
        chance = self._chance
        resource = chance.choice(["nvidia.com/gpu", MIG_2G, MIG_1G, "cpu", "memory"])
        limits = {resource: chance.choice(["1", "2", "0", "1500m", "1e2", "9" * 25])}
        given = {key: str(chance.choice(ODD))[:500] for key in chance.sample(KEYS, 3)}
        kind = chance.choice(["ReplicaSet", "Job", "StatefulSet", "DaemonSet", "Node"])
        return pod(
            container(limits=limits),
            name=chance.choice(["w-0", "x", "q-99999999999", "a" * 253, ""]),
            annotations=given,
            init=[container("i", limits, restartPolicy=chance.choice(["Always", None, "x"]))],
            owner=kind,
        )

    def _mutate(self, value: Any, depth: int = 0) -> None:
        """Change one place somewhere inside."""
        chance = self._chance
        if isinstance(value, dict) and value:
            key = chance.choice(list(value))
            fate = chance.random()
            if fate < 0.25 or depth > 7:
                value[key] = copy.deepcopy(chance.choice(ODD))
            elif fate < 0.32:
                del value[key]
            elif fate < 0.38:
                value[str(chance.choice(ODD))] = value[key]
            else:
                self._mutate(value[key], depth + 1)
        elif isinstance(value, list) and value:
            place = chance.randrange(len(value))
            fate = chance.random()
            if fate < 0.3:
                value[place] = copy.deepcopy(chance.choice(ODD))
            elif fate < 0.4:
                value.append(value[place])
            else:
                self._mutate(value[place], depth + 1)
