"""A request to another of our programs: an HTTP POST with a limited response size.

A kept connection may be from before the other program's restart, so a request on a closed
connection is sent once more. If the first one arrived nevertheless, its reservation matches no pod
and expires after ten seconds.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Final

import aiohttp

from scheduler.httpserver.messages import Reply

ANSWER_MAX: Final = 1024 * 1024
#: aiohttp warns of longer bodies that are given as bytes.
_DIRECT_MAX: Final = 1024 * 1024
_AGAIN: Final = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


class AnswerTooLong(ValueError):
    """A response of more than ANSWER_MAX bytes; it is not read to its end."""


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    server_name: str | None = None,
) -> Reply:
    """The whole response; raises aiohttp.ClientError, OSError or TooLong without one.

    ``server_name`` is the name in the server's certificate, if it is not the URL's.
    """
    try:
        return await _post(session, url, body, headers, server_name)
    except _AGAIN:
        return await _post(session, url, body, headers, server_name)


async def _post(
    session: aiohttp.ClientSession,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    server_name: str | None,
) -> Reply:
    data = body if len(body) <= _DIRECT_MAX else io.BytesIO(body)
    async with session.post(
        url, data=data, headers=headers, server_hostname=server_name, allow_redirects=False
    ) as response:
        content = response.content
        if content.is_eof():  # the usual case: it came in one piece
            return Reply(response.status, content.read_nowait(-1))
        pieces = bytearray()
        async for piece in content.iter_any():
            pieces += piece
            if len(pieces) > ANSWER_MAX:
                raise AnswerTooLong(f"an answer longer than {ANSWER_MAX} bytes")
        return Reply(response.status, bytes(pieces))
