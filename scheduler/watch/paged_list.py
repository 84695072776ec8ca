"""A list in pages: the API server encodes the next page while the last one is decoded.

All pages show one version (client-go, package pager). If the server has forgotten it, the
request for a page ends with 410, and the caller begins again. A page is also the longest time for
which decoding keeps the event loop from other work.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from scheduler.model.json_bounds import UNREADABLE, shallow
from scheduler.watch.client import Client
from scheduler.watch.decode.api_types import Listed
from scheduler.watch.decode.unreadable import problem_text

#: Seconds for one request.
PAGE_S: Final = 60.0
#: A server that continues a list for ever is no API server.
PAGES_MAX: Final = 10_000

E = TypeVar("E")
S = TypeVar("S")
_LIST: Final = msgspec.json.Decoder(Listed)


class Unreadable(Exception):
    """Bytes that no API server sends; ``str()`` describes them."""


class Paging(msgspec.Struct, Generic[E], frozen=True):
    """Number of objects per page, and how the events of all pages become one."""

    size: int
    join: Callable[[Sequence[E]], E]


async def pages(
    client: Client, path: str, params: Mapping[str, str], size: int
) -> AsyncGenerator[Listed, None]:
    """The pages of a list; with a size of 0 it is one. Unreadable if it is no list."""
    asked = {**params, "limit": str(size)} if size else dict(params)

    def requested(token: str = "") -> asyncio.Task[bytes]:
        more = {**asked, "continue": token} if token else asked
        return asyncio.create_task(client.request("GET", path, params=more, timeout_s=PAGE_S))

    request = requested()
    try:
        for _ in range(PAGES_MAX):
            page = _read(await request)
            if not page.metadata.token:
                yield page
                return
            request = requested(page.metadata.token)
            await asyncio.sleep(0)  # the request is sent before the page is decoded
            yield page
    finally:
        request.cancel()
    raise Unreadable(f"no list: more than {PAGES_MAX} pages")


def _read(content: bytes) -> Listed:
    try:
        page = decoded(_LIST, content)
    except UNREADABLE as problem:
        raise Unreadable(f"no list: {problem_text(problem)}") from problem
    if not page.metadata.resource_version:
        raise Unreadable("a list without a version")
    return page


def decoded(decoder: msgspec.json.Decoder[S], content: bytes) -> S:
    """Decode bytes; an ignored field may be nested too deeply."""
    try:
        return decoder.decode(content)
    except RecursionError:
        return decoder.decode(shallow(content))
