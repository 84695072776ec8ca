"""A DRA driver as the kubelet sees it: a registration socket and a service socket.

The kubelet watches its folder of registration sockets, also after a restart of its own, calls
GetInfo, and from then on calls the service socket. The driver never has to register again; it only
restores sockets that were removed.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio
import structlog

from fakegpu import kubelet
from fakegpu.kubelet.dra_pb2 import (
    Claim,
    NodePrepareResourceResponse,
    NodePrepareResourcesRequest,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesRequest,
    NodeUnprepareResourcesResponse,
)
from fakegpu.kubelet.health_pb2 import HealthCheckRequest, HealthCheckResponse
from fakegpu.kubelet.pluginregistration_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from fakegpu.rpc import STOP_S, listening, unary

LOOK_S: Final = 1.0
LIVENESS: Final = "liveness"

log = structlog.get_logger("dra")


class Claims(Protocol):
    """Prepares claims."""

    async def prepare(self, name: Claim) -> NodePrepareResourceResponse:
        """The devices of a claim, or an error."""

    async def unprepare(self, name: Claim) -> NodeUnprepareResourceResponse:
        """Undo the preparation."""


class Driver:
    """One driver on one node; ``health`` is the address of its health service, or empty."""

    def __init__(
        self, name: str, folder: Path, registrar: Path, claims: Claims, health: str = ""
    ) -> None:
        self._name = name
        self._socket = folder / "dra.sock"
        self._registration = registrar / f"{name}-reg.sock"
        self._claims = claims
        self._health = health
        self._servers: list[grpc.aio.Server] = []
        self.is_registered = False

    async def run(self) -> None:
        """Serve the kubelet until cancelled."""
        try:
            while True:
                if not self._is_listening:
                    try:
                        await self._start()
                    except (OSError, RuntimeError) as error:
                        log.warning("not listening yet", driver=self._name, problem=str(error))
                await asyncio.sleep(LOOK_S)
        finally:
            await self._stop()

    @property
    def _is_listening(self) -> bool:
        return bool(self._servers) and self._socket.exists() and self._registration.exists()

    async def _start(self) -> None:
        await self._stop()
        methods = {
            "NodePrepareResources": unary(self._prepare, NodePrepareResourcesRequest),
            "NodeUnprepareResources": unary(self._unprepare, NodeUnprepareResourcesRequest),
        }
        service = grpc.method_handlers_generic_handler(kubelet.DRA_PLUGIN, methods)
        methods = {
            "GetInfo": unary(self._info, InfoRequest),
            "NotifyRegistrationStatus": unary(self._notified, RegistrationStatus),
        }
        registration = grpc.method_handlers_generic_handler(kubelet.PLUGIN_REGISTRATION, methods)
        if self._health:
            self._servers.append(await listening(self._health, self._liveness()))
        # The kubelet calls as soon as it finds the registration socket.
        for socket, handler in ((self._socket, service), (self._registration, registration)):
            self._servers.append(await listening(socket, handler))

    async def _stop(self) -> None:
        self.is_registered = False
        servers, self._servers = self._servers, []
        for server in reversed(servers):
            with contextlib.suppress(grpc.aio.UsageError):
                await server.stop(STOP_S)
        for socket in (self._registration, self._socket):
            socket.unlink(missing_ok=True)

    async def _info(self, _request: InfoRequest, _context: Any) -> PluginInfo:
        return PluginInfo(
            type=kubelet.DRA_PLUGIN_TYPE,
            name=self._name,
            endpoint=str(self._socket),
            supported_versions=[kubelet.DRA_PLUGIN_VERSION],
        )

    async def _notified(
        self, request: RegistrationStatus, _context: Any
    ) -> RegistrationStatusResponse:
        self.is_registered = request.plugin_registered
        if request.plugin_registered:
            log.info("registered", driver=self._name)
        else:
            log.warning("not registered", driver=self._name, problem=request.error)
        return RegistrationStatusResponse()

    async def _prepare(
        self, request: NodePrepareResourcesRequest, _context: Any
    ) -> NodePrepareResourcesResponse:
        return NodePrepareResourcesResponse(
            claims={claim.uid: await self._claims.prepare(claim) for claim in request.claims}
        )

    async def _unprepare(
        self, request: NodeUnprepareResourcesRequest, _context: Any
    ) -> NodeUnprepareResourcesResponse:
        return NodeUnprepareResourcesResponse(
            claims={claim.uid: await self._claims.unprepare(claim) for claim in request.claims}
        )

    def _liveness(self) -> grpc.GenericRpcHandler:
        methods = {"Check": unary(self._check, HealthCheckRequest)}
        return grpc.method_handlers_generic_handler(kubelet.HEALTH, methods)

    async def _check(self, request: HealthCheckRequest, context: Any) -> HealthCheckResponse:
        if request.service not in ("", LIVENESS):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown service {request.service}")
        is_serving = self._is_listening
        return HealthCheckResponse(
            status=HealthCheckResponse.SERVING if is_serving else HealthCheckResponse.NOT_SERVING
        )
