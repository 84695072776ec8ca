"""gRPC over Unix sockets with messages of our own: methods, servers and single calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from fakegpu.protobuf import Message, decode, encode

STOP_S: Final = 0.5
M = TypeVar("M", bound=Message)


def reader(kind: type[M]) -> Callable[[bytes], M]:
    """Bytes to a message."""
    return lambda content: decode(kind, content)


def unary(method: Callable[..., Any], kind: type[Message]) -> grpc.RpcMethodHandler[Any, Any]:
    """A method that answers one message with one."""
    return grpc.unary_unary_rpc_method_handler(method, reader(kind), encode)


async def listening(address: str | Path, *handlers: grpc.GenericRpcHandler) -> grpc.aio.Server:
    """A server that was started: on a socket, whose old file goes, or on ``host:port``."""
    if isinstance(address, Path):
        address.parent.mkdir(parents=True, exist_ok=True)
        address.unlink(missing_ok=True)
        address = f"unix://{address}"
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(handlers)
    server.add_insecure_port(address)
    await server.start()
    return server


async def call(
    address: str | Path, method: str, request: Message, kind: type[M], timeout_s: float
) -> M:
    """Ask once; grpc.aio.AioRpcError or TimeoutError where that fails."""
    target = f"unix://{address}" if isinstance(address, Path) else address
    async with grpc.aio.insecure_channel(target) as channel:
        asked = channel.unary_unary(
            method, request_serializer=encode, response_deserializer=reader(kind)
        )
        answer: M = await asked(request, timeout=timeout_s)
        return answer
