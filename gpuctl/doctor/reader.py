"""Reads objects for the doctor; a failed read becomes ``Unread``, never an exception."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Final, TypeVar

import msgspec

from gpuctl.doctor.api_types import ApiObject
from gpuctl.doctor.facts import Known, Unread
from gpuctl.targets import PAGE
from scheduler.watch import paged_list
from scheduler.watch.client import ApiError, Client, Unreachable

T = TypeVar("T")
NOT_FOUND: Final = 404
FORBIDDEN: Final = 403
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
#: The API server's words about a missing right (apiserver, responsewriters/errors.go).
_LACKS: Final = re.compile(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"')
_OBJECT: Final = msgspec.json.Decoder(ApiObject)


class Reader:
    """Requests to the API server with the user's rights."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def get(self, path: str, kind: type[T], **params: str) -> T:
        """One object, or a list, decoded as ``kind``."""
        content = await self.client.request("GET", path, params=params)
        return msgspec.json.decode(content, type=kind)

    async def objects(self, path: str, **params: str) -> list[ApiObject]:
        """The items of a list."""
        return [_OBJECT.decode(one) async for one in self.each(path, **params)]

    async def raw_objects(self, path: str, **params: str) -> list[msgspec.Raw]:
        """The same for the scheduler's own decoders."""
        return [one async for one in self.each(path, **params)]

    async def each(self, path: str, **params: str) -> AsyncIterator[msgspec.Raw]:
        """The items of a list, which is read in pages."""
        async for page in paged_list.pages(self.client, path, params, PAGE):
            for item in page.items or ():
                yield item

    async def names(self, path: str) -> tuple[str, ...]:
        """The names of the items of a list."""
        return tuple(each.metadata.name for each in await self.objects(path))

    async def post(self, path: str, body: Any, **params: str) -> bytes:
        """Create a review, or an object with dryRun; nothing is stored."""
        return await self.client.request("POST", path, msgspec.json.encode(body), params=params)


async def known(fact: Awaitable[T | Unread]) -> Known[T]:
    """The fact, or the reason why it could not be read."""
    try:
        return await fact
    except ApiError as error:
        why = error.message or f"the API server returned {error.status}"
        return Unread(why, _lacks(error))
    except (Unreachable, paged_list.Unreadable) as error:
        return Unread(str(error))
    except (msgspec.MsgspecError, LookupError, ValueError, TypeError) as error:
        return Unread(f"invalid answer: {error!r}")


def _lacks(error: ApiError) -> str:
    """The missing right, such as ``list nodes``; empty for another error."""
    found = _LACKS.search(error.message) if error.status == FORBIDDEN else None
    if found is None:
        return ""
    verb, resource, group = found.groups()
    return f"{verb} {resource}{'.' if group else ''}{group}"


async def or_none(answer: Awaitable[T]) -> T | None:
    """The answer, or None if the object does not exist."""
    try:
        return await answer
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return None
