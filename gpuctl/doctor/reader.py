"""Reads objects for the doctor; a failed read becomes ``Unread``, never an exception."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, TypeVar

import msgspec

from gpuctl.doctor.api_types import ApiObject, ApiObjects, Page
from gpuctl.doctor.facts import Known, Unread
from scheduler.watch.client import ApiError, Client, Unreachable

T = TypeVar("T")
NOT_FOUND: Final = 404
ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"


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
        content = await self.client.request("GET", path, params=params)
        return msgspec.json.decode(content, type=ApiObjects).items

    async def raw_objects(self, path: str) -> list[bytes]:
        """The same for the scheduler's own decoders."""
        return [bytes(one) for one in (await self.get(path, Page)).items]

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
        return Unread(error.message or f"the API server returned {error.status}")
    except Unreachable as error:
        return Unread(str(error))
    except (msgspec.MsgspecError, LookupError, ValueError, TypeError) as error:
        return Unread(f"invalid answer: {error!r}")


async def or_none(answer: Awaitable[T]) -> T | None:
    """The answer, or None if the object does not exist."""
    try:
        return await answer
    except ApiError as error:
        if error.status != NOT_FOUND:
            raise
        return None
