"""gRPC over Unix sockets: method handlers, servers and single calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

STOP_S: Final = 0.5
M = TypeVar("M", bound=Message)


def encode(message: Message) -> bytes:
    """A message's bytes."""
    return message.SerializeToString()


def unary(method: Callable[..., Any], request: type[Message]) -> grpc.RpcMethodHandler[Any, Any]:
    """A method with one request message and one response message."""
    return grpc.unary_unary_rpc_method_handler(method, request.FromString, encode)


def server_stream(
    method: Callable[..., Any], request: type[Message]
) -> grpc.RpcMethodHandler[Any, Any]:
    """A method with one request message and a stream of response messages."""
    return grpc.unary_stream_rpc_method_handler(method, request.FromString, encode)


async def listening(address: str | Path, *handlers: grpc.GenericRpcHandler) -> grpc.aio.Server:
    """Start a server on a socket, whose old file is removed, or on ``host:port``."""
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
    address: str | Path, method: str, request: Message, response: type[M], timeout_s: float
) -> M:
    """One request; raises grpc.aio.AioRpcError or TimeoutError."""
    target = f"unix://{address}" if isinstance(address, Path) else address
    async with grpc.aio.insecure_channel(target) as channel:
        send = channel.unary_unary(
            method, request_serializer=encode, response_deserializer=response.FromString
        )
        answer: M = await send(request, timeout=timeout_s)
        return answer
