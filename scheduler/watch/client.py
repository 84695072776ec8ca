"""The connection to the API server: one HTTP session, bytes in and bytes out.

``watch/credentials`` finds the server and the credentials. Foreign exceptions are mapped here, so
that no other module depends on aiohttp.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import msgspec

from scheduler.model.integer_text import whole
from scheduler.model.json_bounds import UNREADABLE
from scheduler.model.limits import RETRY_AFTER_S_MAX, WATCH_LINE_BYTES_MAX
from scheduler.watch.credentials import access
from scheduler.watch.credentials.authorization import Authorization

TIMEOUT_S = 15.0
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
JSON = "application/json"


class Status(msgspec.Struct, rename="camel"):
    """The fields of the API server's Status that are read."""

    message: str = ""
    reason: str = ""
    code: int = 0


#: Statuses of a busy API server; they say nothing about the object.
BUSY: Final = (429, 500, 502, 503, 504)


class ApiError(Exception):
    """The API server responded with an error; ``is_busy`` if the same request may succeed later."""

    def __init__(self, status: int, message: str, reason: str = "", retry_after_s: float = 0.0):
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        self.message = message
        self.reason = reason
        self.retry_after_s = retry_after_s
        self.is_busy = status in BUSY


class Unreachable(Exception):
    """No response: refused, reset, cut off or no data for too long."""


class Client:
    """Requests to one API server. The owner must close it."""

    def __init__(
        self, url: str, authorization: Authorization, session: aiohttp.ClientSession
    ) -> None:
        self._authorization = authorization
        self._session = session
        self._base = url.rstrip("/")

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None,
        user_agent: str,
        context: str | None = None,
        *,
        compressed: bool = True,
    ) -> Client:
        """A client from a kubeconfig file, else the pod's ServiceAccount, else the user's file.

        ``context`` is one of the file's, by default its current one. NoCluster has the missing part
        in one line. In the cluster's network responses are better not ``compressed``: the API
        server compresses a list more slowly than it is carried.
        """
        found = await access.find(kubeconfig, context)
        encoding = "gzip, deflate" if compressed else "identity"
        connector = aiohttp.TCPConnector(ssl=found.tls or True, limit=0, keepalive_timeout=60)
        session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": user_agent, "Accept": JSON, "Accept-Encoding": encoding},
            auto_decompress=True,
        )
        return cls(found.url, found.authorization, session)

    async def close(self) -> None:
        """Close every connection."""
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        params: Mapping[str, str] | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout_s: float = TIMEOUT_S,
    ) -> bytes:
        """One request; returns the response's bytes, raises ApiError or Unreachable."""
        headers = {**await self._headers(), "Accept": accept}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            async with self._session.request(
                method,
                self._base + path,
                data=body,
                params=params,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{method} {path}: {_text(error)}") from error
        if response.status >= 400:
            raise _api_error(response, content)
        return content

    async def date(self) -> str:
        """The API server's clock, from the header ``Date`` of a response."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        url, headers = f"{self._base}/version", await self._headers()
        try:
            async with self._session.get(url, headers=headers, timeout=timeout) as response:
                return response.headers.get("Date", "")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"GET /version: {_text(error)}") from error

    @asynccontextmanager
    async def stream(
        self, path: str, params: Mapping[str, str], *, silence_s: float, answer_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A watch: its lines, until the server ends it; Unreachable after a silence.

        A response must begin within ``answer_s``: a watch without events has one too.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_S, sock_read=silence_s)
        try:
            async with asyncio.timeout(answer_s):
                answer = await self._session.get(
                    self._base + path,
                    params=params,
                    headers=await self._headers(),
                    timeout=timeout,
                    middlewares=(_once,),
                )
            async with answer as response:
                if response.status >= 400:
                    raise _api_error(response, await response.read())
                yield _lines(response.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"watch {path}: {_text(error)}") from error

    async def _headers(self) -> dict[str, str]:
        header = await self._authorization.header()
        return {"Authorization": header} if header else {}


async def _once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A broken connection is one failure: aiohttp would retry at once, and double the load."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise Unreachable(f"watch {request.url.path}: {_text(error)}") from error


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines; a last line without its end was cut off and is dropped.

    A line longer than the largest object cannot be the API server's: Unreachable.
    """
    rest: list[bytes] = []
    waiting = 0
    async for chunk in content.iter_any():
        first, *others = chunk.split(b"\n")
        rest.append(first)
        waiting += len(first)
        if waiting > WATCH_LINE_BYTES_MAX:
            raise Unreachable(f"a line of more than {WATCH_LINE_BYTES_MAX} bytes")
        if others:
            for line in (b"".join(rest), *others[:-1]):
                if line:
                    yield line
            rest, waiting = [others[-1]], len(others[-1])


def _api_error(response: aiohttp.ClientResponse, content: bytes) -> ApiError:
    try:
        status = msgspec.json.decode(content, type=Status)
    except UNREADABLE:
        status = Status(message=content[:200].decode("utf-8", "replace"))
    retry_after = response.headers.get("Retry-After", "")
    return ApiError(
        response.status,
        status.message,
        status.reason,
        float(whole(retry_after, RETRY_AFTER_S_MAX) or 0),
    )


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
