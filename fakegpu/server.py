"""The topology server for nvidia-smi and other tools, compatible with the seed operator.

``GET /topology`` and ``GET /topology/nodes/<node>``, JSON with CapitalCase keys. Any replica may
respond: the source are the ConfigMaps. With a token file, requests need its bearer token.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from fakegpu.config import Server
from fakegpu.topology.node_topology import TopologyError, decode_yaml, encode_json
from fakegpu.topology.pools import Pool, Topology

JSON: Final = "application/json"

log = structlog.get_logger("topology-server")


class Answers:
    """The responses; ``node_text`` is the text of a node's ConfigMap, ``not_ready`` the reason."""

    def __init__(
        self,
        topology: Callable[[], Topology | None],
        node_text: Callable[[str], str | None],
        not_ready: Callable[[], str | None],
    ) -> None:
        self._topology = topology
        self._node_text = node_text
        self._not_ready = not_ready

    async def cluster(self, _: web.Request) -> web.Response:
        """The pools."""
        known = self._topology()
        if known is None:
            return _text(500, "the topology could not be read yet")
        return web.Response(body=encode_cluster(known), content_type=JSON)

    async def node(self, request: web.Request) -> web.Response:
        """One node."""
        name = request.match_info["node"]
        if not name:
            return _text(400, f"Can't get node name from url {request.path}")
        text = self._node_text(name)
        if text is None:
            return _text(404, "Node topology not found")
        try:
            body = _as_json(text)
        except TopologyError as error:
            return _text(500, str(error))
        log.info(f"Returning node topology: {name}")
        return web.Response(body=body, content_type=JSON)

    async def live(self, _: web.Request) -> web.Response:
        """The process responds."""
        return web.json_response({"status": "healthy"})

    async def ready(self, _: web.Request) -> web.Response:
        """Every kind was listed once."""
        problem = self._not_ready()
        if problem is None:
            return web.json_response({"status": "ready"})
        return web.json_response({"status": "not ready", "reason": problem}, status=503)


def application(settings: Server, answers: Answers) -> web.Application:
    """The server."""
    app = web.Application(middlewares=[_guard(Path(settings.token_file))])
    app.router.add_get("/topology", answers.cluster)
    app.router.add_get("/topology/nodes/{node:[^/]*}", answers.node)
    for path in ("/healthz", "/livez"):
        app.router.add_get(path, answers.live)
    app.router.add_get("/readyz", answers.ready)
    return app


def _guard(token_file: Path) -> Middleware:
    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        # Read at each request: a renewed Secret replaces the file.
        if token_file.name and request.path.startswith("/topology"):
            try:
                token = token_file.read_text().strip()
            except OSError as error:
                return _text(503, f"the token cannot be read: {error.strerror}")
            given = request.headers.get("Authorization", "")
            if not token or not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
                return _text(401, "a bearer token is required")
        return await handler(request)

    return guard


def _text(status: int, text: str) -> web.Response:
    # The seed's server sends errors as JSON too, and clients read the status only.
    return web.Response(status=status, body=text.encode(), content_type=JSON)


@lru_cache(maxsize=128)
def _as_json(text: str) -> bytes:
    return encode_json(decode_yaml(text))


def encode_cluster(topology: Topology) -> bytes:
    """The cluster's topology."""
    return msgspec.json.encode(
        {
            "NodePools": {name: _pool(pool) for name, pool in topology.pools.items()},
            "NodePoolLabelKey": topology.label_key,
            "MigStrategy": topology.mig_strategy,
        }
    )


def _pool(pool: Pool) -> dict[str, object]:
    """A pool with different GPUs is described by its first one."""
    first = pool.gpus[0] if pool.gpus else None
    return {
        "GpuCount": len(pool.gpus),
        "GpuMemory": first.memory_mib if first else 0,
        "GpuProduct": first.product if first else "",
        "OtherDevices": [{"Name": one.name, "Count": one.count} for one in pool.others] or None,
    }
