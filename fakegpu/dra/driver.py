"""A DRA driver as the kubelet sees it: a socket by which it is found, and one that is asked.

The kubelet looks into its folder of registration sockets, also after a restart of its own, asks who
is there, and from then on calls the other socket. So nothing has to be registered again; only
sockets that somebody took away are made anew.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, Final, Protocol

import grpc
import grpc.aio
import structlog

from fakegpu.dra import messages
from fakegpu.dra.messages import ClaimName, Empty, Prepared, Unprepared
from fakegpu.rpc import STOP_S, listening, unary

LOOK_S: Final = 1.0
LIVENESS: Final = "liveness"

log = structlog.get_logger("dra")


class Claims(Protocol):
    """Who makes claims ready."""

    async def prepare(self, name: ClaimName) -> Prepared:
        """The devices of a claim, or why there are none."""

    async def unprepare(self, name: ClaimName) -> Unprepared:
        """Undo it."""


class Driver:
    """One driver on one node; ``health`` is where it says how it is, empty: nowhere."""

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
        """Be there for the kubelet; ends only by cancellation."""
        try:
            while True:
                if not self._is_there:
                    try:
                        await self._start()
                    except (OSError, RuntimeError) as error:
                        log.warning("not listening yet", driver=self._name, problem=str(error))
                await asyncio.sleep(LOOK_S)
        finally:
            await self._stop()

    @property
    def _is_there(self) -> bool:
        return bool(self._servers) and self._socket.exists() and self._registration.exists()

    async def _start(self) -> None:
        await self._stop()
        methods = {
            "NodePrepareResources": unary(self._prepare, messages.ClaimsRequest),
            "NodeUnprepareResources": unary(self._unprepare, messages.ClaimsRequest),
        }
        asked = grpc.method_handlers_generic_handler(messages.DRA_PLUGIN, methods)
        methods = {
            "GetInfo": unary(self._info, Empty),
            "NotifyRegistrationStatus": unary(self._notified, messages.RegistrationStatus),
        }
        found = grpc.method_handlers_generic_handler(messages.REGISTRATION, methods)
        if self._health:
            self._servers.append(await listening(self._health, self._liveness()))
        # The kubelet comes as soon as it sees the registration's socket.
        for socket, handler in ((self._socket, asked), (self._registration, found)):
            self._servers.append(await listening(socket, handler))

    async def _stop(self) -> None:
        self.is_registered = False
        servers, self._servers = self._servers, []
        for server in reversed(servers):
            with contextlib.suppress(grpc.aio.UsageError):
                await server.stop(STOP_S)
        for socket in (self._registration, self._socket):
            socket.unlink(missing_ok=True)

    async def _info(self, _request: Empty, _context: Any) -> messages.PluginInfo:
        return messages.PluginInfo(
            messages.KIND, self._name, str(self._socket), (messages.SUPPORTED,)
        )

    async def _notified(self, request: messages.RegistrationStatus, _context: Any) -> Empty:
        self.is_registered = request.plugin_registered
        if request.plugin_registered:
            log.info("registered", driver=self._name)
        else:
            log.warning("not registered", driver=self._name, problem=request.error)
        return Empty()

    async def _prepare(
        self, request: messages.ClaimsRequest, _context: Any
    ) -> messages.PrepareResponse:
        return messages.PrepareResponse(
            {one.uid: await self._claims.prepare(one) for one in request.claims}
        )

    async def _unprepare(
        self, request: messages.ClaimsRequest, _context: Any
    ) -> messages.UnprepareResponse:
        return messages.UnprepareResponse(
            {one.uid: await self._claims.unprepare(one) for one in request.claims}
        )

    def _liveness(self) -> grpc.GenericRpcHandler:
        methods = {"Check": unary(self._check, messages.HealthRequest)}
        return grpc.method_handlers_generic_handler(messages.HEALTH, methods)

    async def _check(
        self, request: messages.HealthRequest, context: Any
    ) -> messages.HealthResponse:
        if request.service not in ("", LIVENESS):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"unknown service {request.service}")
        status = messages.SERVING if self._is_there else messages.NOT_SERVING
        return messages.HealthResponse(status)
