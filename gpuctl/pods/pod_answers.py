"""The explanation of a pod: of the leader's decisions API, or through the API server.

The aggregated decisions API needs no right in the scheduler's namespace, but has to be enabled. Its
answers have no names of other namespaces' pods.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from gpuctl import cluster_access
from gpuctl.input_error import NotReached
from scheduler.model.decisions.messages import GROUP, VERSION
from scheduler.report.decisions.api_types import PodAnswer
from scheduler.watch.client import TIMEOUT_S, ApiError, Client, Unreachable

#: No right, no such API in this cluster, or no decision about the pod.
_NO_ANSWER: Final = (403, 404)


class _Decision(msgspec.Struct, frozen=True):
    answer: PodAnswer


async def of_leader(url: str, namespace: str, name: str, because: str = "") -> PodAnswer:
    """The decisions API's answer; ``because`` is the earlier error, put before a new one."""
    try:
        async with cluster_access.server(url) as client:
            content = await cluster_access.ask(
                client, f"/decisions/{namespace}/{name}", {}, TIMEOUT_S
            )
        return msgspec.json.decode(content, type=PodAnswer)
    except NotReached as error:
        raise NotReached(f"{because}{error}") from error
    except msgspec.MsgspecError as error:
        raise NotReached(f"{url} is no decisions API that gpuctl understands: {error}") from error


async def of_api_server(
    client: Client,
    namespace: str,
    name: str,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> PodAnswer | None:
    """The aggregated decisions API's answer; None if it is not enabled or not allowed."""
    path = f"/apis/{GROUP}/{VERSION}/namespaces/{namespace}/decisions/{name}"
    try:
        content = await cluster_access.patient(client, path, {}, TIMEOUT_S, pause)
        return msgspec.json.decode(content, type=_Decision).answer
    except ApiError as error:
        if error.status in _NO_ANSWER:
            return None
        problem = error.message or str(error)
    except (Unreachable, msgspec.MsgspecError) as error:
        problem = str(error)
    raise NotReached(f"the aggregated decisions API: {problem}")
