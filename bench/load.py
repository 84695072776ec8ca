"""The load generator, in a process of its own: creates pods or nodes at a given rate.

    python -m bench.load KUBECONFIG pods NAMESPACE SCHEDULER COUNT RATE [KIND]
    python -m bench.load KUBECONFIG nodes COUNT GPUS
    python -m bench.load KUBECONFIG requests FILE RATE [IN_FLIGHT]

A generator inside the scheduler's or the observer's process would slow down both and make the API
server drop their watches. RATE is pods per second; 0 is unlimited. KIND is ``gpu`` (the default),
``mig``, ``map``, or ``gated`` and ``gated-mig``, which no scheduler places. FILE has one request
per line: ``{"method": ..., "path": ..., "body": ...}``.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from scheduler.watch.client import JSON, STRATEGIC_PATCH, ApiError, Client

IN_FLIGHT = 48
#: A busy machine may take long for 48 requests at once.
TIMEOUT_S = 60.0

LIMITS: dict[str, dict[str, str]] = {
    "gpu": {"nvidia.com/gpu": "1"},
    "mig": {"nvidia.com/mig-2g.20gb": "1"},
    "map": {},
    "gated": {"nvidia.com/gpu": "1"},
    "gated-mig": {"nvidia.com/mig-2g.20gb": "1"},
}


def pod(name: str, scheduler: str, kind: str = "gpu") -> dict[str, Any]:
    """A pod that requests one GPU, or one MIG instance, or has a map."""
    index = int(name.rpartition("-")[2])
    # A bare pod's index is the end of its name; every pod gets a device of its own.
    line = f"{index}=node-{index % 100:05}:{index // 100 % 8}"
    annotations = {"gpu-scheduling-map": line} if kind == "map" else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "schedulerName": scheduler,
            "schedulingGates": [{"name": "example.com/bench"}] if kind.startswith("gated") else [],
            "automountServiceAccountToken": False,
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "resources": {
                        "requests": {"cpu": "1", "memory": "1Gi"},
                        "limits": LIMITS[kind],
                    },
                }
            ],
        },
    }


def node(number: int, gpus: int) -> dict[str, Any]:
    """A node as a cloud creates it: two labels of its own and a little less memory than nominal."""
    amounts = {
        "cpu": "64",
        "memory": f"{512 * 1024 - number % 97}Mi",
        "pods": "110",
        "nvidia.com/gpu": str(gpus),
    }
    name = f"node-{number:05}"
    labels = {
        "kubernetes.io/hostname": name,
        "example.com/instance": f"i-{number:08x}",
        "topology.kubernetes.io/zone": f"z{number % 3}",
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def name_of(number: int) -> str:
    """A pod's name; it ends in the index of its map line."""
    return f"p-{number:05}"


async def _paced(count: int, rate: float) -> AsyncIterator[int]:
    started = time.monotonic()
    for number in range(count):
        if rate:
            ahead = started + number / rate - time.monotonic()
            if ahead > 0:
                await asyncio.sleep(ahead)
        yield number


class Request(msgspec.Struct, frozen=True):
    """One request to the API server; a line of a file of requests."""

    method: str
    path: str
    body: Any = None


REQUEST = msgspec.json.Decoder(Request)


async def create(client: Client, path: str, bodies: list[dict[str, Any]], rate: float) -> None:
    """Create all objects."""
    await send(client, [Request("POST", path, body) for body in bodies], rate)


async def send(
    client: Client, requests: list[Request], rate: float, in_flight: int = IN_FLIGHT
) -> None:
    """Send all requests in order, at most ``in_flight`` at a time.

    An object that is gone before its DELETE is deleted.
    """
    slots = asyncio.Semaphore(in_flight)

    async def one(request: Request) -> None:
        body = None if request.body is None else msgspec.json.encode(request.body)
        kind = STRATEGIC_PATCH if request.method == "PATCH" else JSON
        try:
            await client.request(
                request.method, request.path, body, content_type=kind, timeout_s=TIMEOUT_S
            )
        except ApiError as error:
            if (request.method, error.status) != ("DELETE", HTTPStatus.NOT_FOUND):
                raise
        finally:
            slots.release()

    async with asyncio.TaskGroup() as group:
        async for number in _paced(len(requests), rate):
            await slots.acquire()
            group.create_task(one(requests[number]))


async def main(words: list[str]) -> None:
    """Run one of the three forms."""
    client = await Client.connect(words[0], "bench-load")
    try:
        if words[1] == "nodes":
            count, gpus = int(words[2]), int(words[3])
            await create(client, "/api/v1/nodes", [node(n, gpus) for n in range(count)], 0)
        elif words[1] == "requests":
            lines = Path(words[2]).read_bytes().splitlines()
            in_flight = int(words[4]) if len(words) > 4 else IN_FLIGHT
            requests = [REQUEST.decode(line) for line in lines]
            await send(client, requests, float(words[3]), in_flight)
        else:
            namespace, scheduler, count, rate = words[2], words[3], int(words[4]), float(words[5])
            kind = words[6] if len(words) > 6 else "gpu"
            bodies = [pod(name_of(number), scheduler, kind) for number in range(count)]
            await create(client, f"/api/v1/namespaces/{namespace}/pods", bodies, rate)
    finally:
        await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
